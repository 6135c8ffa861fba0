"""What the packaged PoCL compiles for: which processor, and with which functions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from driver_support import OCL, needs_opencl
from program_support import ocl_process

pytestmark = [
    pytest.mark.by_turns(4),
    *needs_opencl("3.0-rc2", "the first OpenCL device is not the packaged PoCL's"),
]

QEMU = shutil.which("qemu-x86_64")

# The record of a device is the process's: a process for each name.
PROGRAM = """
import json, struct, sys
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client, DriverError

answer = {}
try:
    driver = Client(contract.load(ocl.library_path()))
    answer["keys"] = [driver.device_properties(i).driver_version.decode() for i in range(2)]
    queue, address = driver.queue_create(0), driver.allocate(0, 256)
    source = "__kernel void f(__global float *x) { %s }" % sys.argv[1]
    driver.write(queue, address, bytes(256))
    program = driver.program_build(0, source)
    kernel = driver.kernel_create(program, "f")
    driver.launch(queue, kernel, [4], [4], address)
    answer["values"] = struct.unpack("4f", driver.read(queue, address, 16))
    answer["binary"] = driver.program_binary(program).decode("latin-1")
except DriverError as error:
    answer["error"] = str(error)
answer["report"] = ocl.describe()
print(json.dumps(answer))
"""


def run(
    processor: str,
    tmp_path: Path,
    body: str = "x[get_global_id(0)] = 3;",
    emulator: tuple[str, ...] = (),
) -> dict[str, object]:
    """What a process says that runs a kernel with this body."""
    settings = {
        "OUTBOARD_OCL_PROCESSOR": processor,
        "OUTBOARD_OCL_MEMORY": "shared",
        "POCL_CACHE_DIR": str(tmp_path),
    }
    if not emulator:
        return json.loads(ocl_process(PROGRAM, body, **settings).stdout)
    environment = {**os.environ, **OCL, **settings, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [*emulator, sys.executable, "-c", PROGRAM, body]
    return json.loads(subprocess.check_output(command, env=environment, text=True, timeout=240))


def test_a_name_is_chosen_for_an_unknown_processor(tmp_path: Path) -> None:
    answer = run("unknown", tmp_path)
    assert answer["values"] == [3.0] * 4, answer
    assert "PoCL compiles for " in str(answer["report"])


def test_what_the_compiler_of_an_unknown_processor_refuses_is_an_error(tmp_path: Path) -> None:
    answer = run("generic", tmp_path)
    assert "values" not in answer
    assert "unknown target CPU 'generic'" in str(answer["error"])


@pytest.mark.slow
def test_the_name_is_part_of_the_key_of_binaries(tmp_path: Path) -> None:
    keys = [run(name, tmp_path)["keys"] for name in ("unknown", "unknown", "sandybridge")]
    assert keys[0] == keys[1] != keys[2]
    for first, second in keys:
        assert first == second


def test_pocl_keeps_what_it_built_apart_by_name(tmp_path: Path) -> None:
    # PoCL itself takes what it has built with the same options from its own folder.
    folders = []
    for name in ("sandybridge", "unknown", "sandybridge"):
        assert run(name, tmp_path)["values"] == [3.0] * 4
        folders.append(sum(1 for _ in tmp_path.rglob("program.bc")))
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
# AVX-512 and without clwb; without AVX-512.
NAMES = {
    "": (),
    "icelake-client": ("avx512f", "avx512_vbmi2"),
    "rocketlake": ("avx512f", "avx512_vbmi2"),
    "cannonlake": ("avx512f", "avx512vbmi"),
    "znver2": ("avx2", "sha_ni"),
}


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_inlined(name: str, tmp_path: Path) -> None:
    """Of vectors, and the mathematics: kernels take several times as long if they are called."""
    if missing := set(NAMES[name]) - _flags():
        pytest.skip(f"this processor has not all that {name} has: {', '.join(sorted(missing))}")
    # Vectors that fill a register, if the compiler knows how wide they are.
    full = "avx512f" in _flags() and name != "znver2"
    answer = run(name, tmp_path, _body(16 if full else 8))
    assert answer["values"] == [3.0] * 4, answer
    assert _uninlined(answer) == []


@pytest.mark.slow
@pytest.mark.skipif(QEMU is None, reason="qemu-x86_64, of the package qemu-user, is not installed")
@pytest.mark.parametrize(
    ("processor", "name", "width"),
    [
        ("Nehalem", "nehalem", 4),
        ("SandyBridge", "sandybridge", 8),
        ("Haswell", "haswell", 8),
        ("EPYC", "znver1", 8),
        ("EPYC-Rome", "znver2", 8),
        ("EPYC-Milan", "znver3", 8),
    ],
)
def test_functions_are_inlined_on(processor: str, name: str, width: int, tmp_path: Path) -> None:
    """On other processors, without AVX-512, for which PoCL takes other functions: emulated."""
    answer = run("", tmp_path, _body(width), emulator=(str(QEMU), "-cpu", processor))
    assert f"PoCL compiles for {name}" in str(answer["report"])
    assert answer["values"] == [3.0] * 4, answer
    assert _uninlined(answer) == []
