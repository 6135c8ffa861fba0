"""The processor and the functions that the packaged PoCL compiles for."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from driver_support import needs_opencl
from program_support import answer_of, kernel_process

pytestmark = [
    pytest.mark.by_turns(4),
    *needs_opencl("3.0-rc2", "the first OpenCL device is not the packaged PoCL's"),
]


def run(processor: str, folder: Path, body: str = "x[get_global_id(0)] = 3;") -> dict[str, object]:
    """The output of a process that runs a kernel with this body."""
    settings = {"OUTBOARD_OCL_PROCESSOR": processor, "OUTBOARD_OCL_MEMORY": "shared"}
    return answer_of(kernel_process(body, **settings, POCL_CACHE_DIR=str(folder)))


def test_what_the_compiler_of_an_unknown_processor_refuses_is_an_error(tmp_path: Path) -> None:
    answer = run("generic", tmp_path)
    assert "values" not in answer
    assert "unknown target CPU 'generic'" in str(answer["error"])


def test_kernels_are_cached_by_processor(tmp_path: Path) -> None:
    """Also by PoCL, which takes what it has built with the same options from its own folder."""
    keys, folders = [], []
    for name in ("sandybridge", "unknown", "sandybridge"):
        answer = run(name, tmp_path)
        assert answer["values"] == [3.0] * 4
        assert "PoCL compiles for " in str(answer["report"])
        keys.append(answer["keys"])
        folders.append(sum(1 for _ in tmp_path.rglob("program.bc")))
    assert keys[0] == keys[2] != keys[1]
    assert all(len(set(of_devices)) == 1 for of_devices in keys)
    assert folders == [1, 2, 2]


def _uninlined(answer: dict[str, object]) -> list[str]:
    """Functions of PoCL's that a binary still calls."""
    return re.findall(r"\0(_Z[0-9]+_cl_\w+)(?=\0)", str(answer["binary"]))


def _body(width: int) -> str:
    """Loads, mathematics and stores of vectors, after which x is 3."""
    vectors = f"fmin(min(sqrt(vload{width}(0, x)) + 4.0f, 3.5f), 3.0f)"
    return f"for (int i = 0; i < 16; ++i) x[i] = i; vstore{width}({vectors}, 0, x);"


def _flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


@pytest.mark.skipif(
    shutil.which("objdump") is None, reason="objdump, of the package binutils, is not installed"
)
def test_vectors_are_loaded_whole(tmp_path: Path) -> None:
    """Also where the compiler could compute with pairs that it had loaded by themselves."""
    body = (
        "\n#pragma OPENCL FP_CONTRACT OFF\n"
        "vstore8(max(vload8(0, x) * vload8(0, x + 9) + vload8(0, x + 18), 3.0f), 0, x);"
    )
    answer = run("", tmp_path, body)
    assert answer["values"] == [3.0] * 4, answer
    binary = str(answer["binary"]).encode("latin-1")
    (tmp_path / "kernel.so").write_bytes(binary[binary.index(b"\x7fELF") :])
    code = subprocess.check_output(["objdump", "-d", tmp_path / "kernel.so"], text=True)
    kernel = code[code.index("_pocl_kernel_f") :]
    assert "mulps" in kernel
    assert "movsd" not in kernel


# Names of a processor, and what it takes to run code for them: "" as PoCL calls this one; with
# AVX-512 and without clwb; without AVX-512; without AVX.
NAMES = {
    "": (),
    "rocketlake": ("avx512f", "avx512_vbmi2"),
    "znver2": ("avx2", "sha_ni"),
    "nehalem": ("sse4_2",),
}


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_inlined(name: str, tmp_path: Path) -> None:
    """Of vectors, and the mathematics: kernels take several times as long if they are called."""
    if missing := set(NAMES[name]) - _flags():
        pytest.skip(f"this processor has not all that {name} has: {', '.join(sorted(missing))}")
    # Vectors that fill a register, if the compiler knows how wide they are.
    width = {"nehalem": 4, "znver2": 8}.get(name, 16 if "avx512f" in _flags() else 8)
    answer = run(name, tmp_path, _body(width))
    assert answer["values"] == [3.0] * 4, answer
    assert _uninlined(answer) == []
