"""The dialect on another processor: programs for Linux on aarch64 that an emulator runs.

They are freestanding, so that a clang and lld are all that they need. QEMU's user mode runs them
(Debian: qemu-user-static), else Unicorn (pip: unicorn); TEST_EMULATOR=unicorn asks for it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.dialects.accuracy import FUNCTIONS, TYPES, Array, source
from tests.dialects.compiled import CLANGS, DIALECT, LANGUAGE

FLAGS = ["--target=aarch64-unknown-linux-gnu", "-O2", "-ffreestanding", "-fno-pic"]
HERE = Path(__file__).parent


def find_linker() -> list[str] | None:
    """lld: zig brings one, and clang's packages another."""
    for clang in CLANGS:
        if clang[-1] == "clang" and len(clang) > 1:
            return [*clang[:-1], "ld.lld"]
    names = ["ld.lld", *(f"ld.lld-{n}" for n in range(30, 13, -1))]
    found = next(filter(None, map(shutil.which, names)), None)
    return None if found is None else [found]


def find_emulator() -> list[str] | None:
    """A command before that of a program; "unicorn" stands for the emulator that is a library."""
    if os.environ.get("TEST_EMULATOR") != "unicorn":
        if platform.machine() == "aarch64":
            return []
        for name in ("qemu-aarch64-static", "qemu-aarch64"):
            if path := shutil.which(name):
                return [path]
    return ["unicorn"] if importlib.util.find_spec("unicorn") else None


LINKER, EMULATOR = find_linker(), find_emulator()
MISSING = (
    "no clang: install ziglang, or name one in OUTBOARD_CLANG"
    if not CLANGS
    else "no ld.lld: install ziglang or lld"
    if LINKER is None
    else "no emulator of aarch64: install qemu-user-static or the package unicorn"
    if EMULATOR is None
    else None
)


def link(main: str, text: str, program: Path, flags: Sequence[str] = ()) -> None:
    """Makes `program` of OpenCL C, behind opencl.h, and of a `main` in C with a _start."""
    folder = program.parent
    (folder / "text.cl").write_text(text)
    (folder / "main.c").write_text(main)
    dialect = [*LANGUAGE, "-include", str(DIALECT / "opencl.h"), *flags]
    steps = [
        [*dialect, "-c", str(folder / "text.cl"), "-o", str(folder / "text.o")],
        ["-I", str(HERE), "-c", str(folder / "main.c"), "-o", str(folder / "main.o")],
        ["-c", str(DIALECT / "current_item.c"), "-o", str(folder / "item.o")],
    ]
    commands = [[*CLANGS[0], *FLAGS, *step] for step in steps]
    objects = [str(folder / name) for name in ("text.o", "main.o", "item.o")]
    commands.append([*(LINKER or []), "-static", "-o", str(program), *objects])
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)


def run(program: Path, given: bytes = b"") -> bytes:
    """What it writes.

    Raises:
        subprocess.CalledProcessError: where it fails.
    """
    if EMULATOR == ["unicorn"]:
        from tests.dialects.unicorn_linux import run_in_unicorn

        return run_in_unicorn(program, given)
    command = [*(EMULATOR or []), str(program)]
    return subprocess.run(command, input=given, check=True, stdout=subprocess.PIPE).stdout


MAIN = """
#include "aarch64_calls.h"
typedef unsigned long ulong;
{declarations}
static void (*const functions[])(void) = {{ {names} }};
static _Alignas(128) char arrays[3][1 << 22];

void _start(void) {{
  struct {{ ulong function, inputs, bytes; long count; }} call;
  read_all(&call, sizeof call);
  for (ulong i = 0; i < call.inputs; ++i) read_all(arrays[i], call.bytes);
  void (*const found)(void) = functions[call.function];
  if (call.inputs == 1) {{
    ((void (*)(void*, void*, long))found)(arrays[0], arrays[2], call.count);
  }} else {{
    ((void (*)(void*, void*, void*, long))found)(arrays[0], arrays[1], arrays[2], call.count);
  }}
  write_all(arrays[2], call.bytes);
  finish(0);
}}
"""


class OnAarch64:
    """The dialect's mathematics, emulated, in vectors of `width`; up to 4 MiB in a call."""

    def __init__(self, names: Sequence[str], width: int = 4) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._program = Path(self._folder.name) / "mathematics"
        self._places = {
            f"run_{n}_{t}": i for i, (t, n) in enumerate((t, n) for t in TYPES for n in names)
        }
        declarations = "\n".join(f"void {name}(void);" for name in self._places)
        main = MAIN.format(declarations=declarations, names=", ".join(self._places))
        opening = "void {name}({inputs}__global {type} *out, long n) "
        opening += f"{{{{ for (long i = 0; i < n; i += {width}) {{{{"
        text = source(names, opening, "i", "}}", width)
        link(main, text, self._program, ["-cl-single-precision-constant"])

    def __call__(self, name: str, kind: str, *arguments: Array) -> Array:
        assert len(arguments) == FUNCTIONS[name].arguments
        size = arguments[0].nbytes
        place = self._places[f"run_{name}_{kind}"]
        call = struct.pack("<4Q", place, len(arguments), size, arguments[0].size)
        data = run(self._program, call + b"".join(a.tobytes() for a in arguments))
        return np.frombuffer(data, arguments[0].dtype).copy()
