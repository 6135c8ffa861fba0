"""The dialect for other processors: it leaves nothing to a library, and all kernels compile."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dialects.accuracy import FUNCTIONS, source
from tests.dialects.compiled import CLANGS, MISSING, compile_object

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

TARGETS = {
    "x86-64": ["--target=x86_64-unknown-linux-gnu", "-march=x86-64"],
    "x86-64-v4": ["--target=x86_64-unknown-linux-gnu", "-march=x86-64-v4"],
    "aarch64": ["--target=aarch64-unknown-linux-gnu"],
    "riscv64": ["--target=riscv64-unknown-elf", "-march=rv64gc", "-mcmodel=medany"],
}
OPENING = "void {name}({inputs}{type} *out, long n) {{ for (long i = 0; i < n; i += WIDE) {{"


def source_of(width: int) -> str:
    return source(list(FUNCTIONS), OPENING.replace("WIDE", str(width)), "i", "}}", width)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_every_function_compiles_and_needs_no_library(
    target: str, width: int, tmp_path: Path
) -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("needs nm, of binutils")
    for clang in CLANGS:
        compiled = compile_object(source_of(width), [*TARGETS[target], "-O2"], tmp_path, clang)
        shown = subprocess.run(
            [nm, "-u", str(compiled)], capture_output=True, text=True, check=True
        )
        missing = {line.split()[-1] for line in shown.stdout.splitlines() if line.strip()}
        assert missing <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}, clang


# As the driver `host` compiles on aarch64, with vectors of 128 bits and with SVE.
FLAGS = ["--target=aarch64-unknown-linux-gnu", "-O3", "-fPIC", "-ffreestanding", "-fno-math-errno"]
PROCESSORS = ["neoverse-n1", "neoverse-v1"]


@pytest.mark.slow
def test_programs_of_every_family_compile_for_vectors_of_four_floats(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.dialects.program_sources", str(tmp_path)],
        cwd=Path(__file__).parents[2], check=True, timeout=900,
    )  # fmt: skip
    files = sorted(tmp_path.glob("*.cl"))
    assert len(files) > 50
    for i, path in enumerate(files):
        program, processor = path.read_text(), f"-mcpu={PROCESSORS[i % len(PROCESSORS)]}"
        options = program.partition("\n")[0].removeprefix("//").split()
        # Kernels as external functions, since the compiler omits uncalled static ones.
        given = [*FLAGS, processor, *options, "-D__kernel=", "-Dkernel="]
        try:
            compile_object(program, given, tmp_path)
        except subprocess.CalledProcessError as error:
            pytest.fail(f"{processor}:\n{error.stderr[:2000]}\n{program[-3000:]}")
