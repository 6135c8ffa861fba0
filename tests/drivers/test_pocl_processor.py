"""What the packaged PoCL compiles for on a processor that its compiler does not know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driver_support import OCL, reason_without_opencl

from torch_outboard.drivers import ocl

pytestmark = [
    pytest.mark.ocl_only,
    pytest.mark.skipif(reason_without_opencl() is not None, reason=str(reason_without_opencl())),
    pytest.mark.skipif(
        "3.0-rc2" not in ocl.describe(), reason="the first OpenCL device is not the packaged PoCL's"
    ),
]

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
    kernel = driver.kernel_create(driver.program_build(0, source), "f")
    driver.launch(queue, kernel, [4], [4], address)
    answer["values"] = struct.unpack("4f", driver.read(queue, address, 16))
except DriverError as error:
    answer["error"] = str(error)
answer["report"] = ocl.describe()
print(json.dumps(answer))
"""


def run(
    processor: str, tmp_path: Path, body: str = "x[get_global_id(0)] = 3;"
) -> dict[str, object]:
    """What a process says that runs a kernel with this body."""
    environment = {
        **os.environ,
        **OCL,
        "OUTBOARD_OCL_PROCESSOR": processor,
        "OUTBOARD_OCL_MEMORY": "shared",
        "POCL_CACHE_DIR": str(tmp_path),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    printed = subprocess.check_output(
        [sys.executable, "-c", PROGRAM, body], env=environment, text=True, timeout=120
    )
    return json.loads(printed)


def test_a_name_is_chosen_for_an_unknown_processor(tmp_path: Path) -> None:
    answer = run("unknown", tmp_path)
    assert answer["values"] == [3.0] * 4, answer
    assert "PoCL compiles for " in str(answer["report"])


def test_what_the_compiler_of_an_unknown_processor_refuses_is_an_error(tmp_path: Path) -> None:
    answer = run("generic", tmp_path)
    assert "values" not in answer
    assert "unknown target CPU 'generic'" in str(answer["error"])


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


def test_functions_of_vectors_that_fill_a_register_are_inlined(tmp_path: Path) -> None:
    # Where the processor has AVX-512, the compiler has to know it, as PoCL's functions do.
    body = "for (int i = 0; i < 16; ++i) x[i] = i; vstore16(min(vload16(0, x) + 4.0f, 3.0f), 0, x);"
    answer = run("", tmp_path, body)
    assert answer["values"] == [3.0] * 4, answer
