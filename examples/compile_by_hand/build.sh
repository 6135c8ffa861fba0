#!/bin/bash
# Compiles saxpy.cl for a RISC-V processor without an operating system, step by step, into the
# working folder: saxpy.elf. A clang and a linker come with the package `ziglang`; ZIG names another
# copy of its program.
set -euo pipefail
ZIG=${ZIG:-python -m ziglang}
SOURCE=$(cd "$(dirname "$0")" && pwd)
DIALECT=${DIALECT:-$(python -c 'from torch_outboard.state import PACKAGE as p; print(p / "dialects/clang")')}
cp "$SOURCE/saxpy.cl" .

CLANG="$ZIG clang"
TARGET="--target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d -fPIC -fvisibility=hidden -ffreestanding"
LANGUAGE="-x cl -cl-std=CL1.2 -cl-no-stdinc -Xclang -cl-ext=+all -w"
$CLANG $TARGET $LANGUAGE -E -include $DIALECT/opencl.h saxpy.cl -o text.cl              # 1
cat >> text.cl <<END                                                                    # 2
OB_ENTRY_BEGIN(saxpy)
saxpy(OB_ARGUMENT(0, float *), OB_ARGUMENT(1, const float *), OB_ARGUMENT(2, float));
OB_ENTRY_END
END
$CLANG $TARGET $LANGUAGE -O3 -include $DIALECT/entry.h -c text.cl -o program.o          # 3
$CLANG $TARGET -O2 -x c -c $DIALECT/current_item.c -o current_item.o                    # once

$ZIG ld.lld -shared -Bsymbolic --no-undefined -o saxpy.elf program.o current_item.o
readelf -W --dyn-syms saxpy.elf

# The same with a precompiled header, which clang reads in a tenth of the time.
FLAGS="$TARGET $LANGUAGE -O3"
$CLANG $FLAGS -c -Xclang -emit-pch $DIALECT/opencl.h -o opencl.pch                         # once
$CLANG $FLAGS -E -include $DIALECT/language/types.h saxpy.cl -o text.cl                    # 1
cat text.cl - > entries.cl <<END                                                           # 2
OB_ENTRY_BEGIN(saxpy)
saxpy(OB_ARGUMENT(0, float *), OB_ARGUMENT(1, const float *), OB_ARGUMENT(2, float));
OB_ENTRY_END
END
$CLANG $FLAGS -include-pch opencl.pch -include $DIALECT/entry.h -c entries.cl -o program.o  # 3
$ZIG ld.lld -shared -Bsymbolic --no-undefined -o saxpy.elf program.o current_item.o
