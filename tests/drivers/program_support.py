"""Binaries that are damaged, and processes that launch kernels."""

import json
import subprocess

from driver_support import OCL, DriverUnderTest, fails_with

from tests.support import try_python
from torch_outboard.drivers.contract import Status


def refuses_binaries(driver: DriverUnderTest, binary: bytes) -> None:
    """No driver of this package takes a binary that is not whole."""
    for damaged in (
        b"",
        binary[:10],
        binary[: len(binary) // 2],
        binary[:-1],
        b"\0" * len(binary),
        binary[:-1] + bytes([binary[-1] ^ 1]),
        binary[:2000] + bytes([binary[2000] ^ 1]) + binary[2001:],
    ):
        with fails_with(Status.INVALID_ARGUMENT, "not a binary of this driver, or are damaged"):
            driver.program_load(0, damaged)


def ocl_process(
    code: str, *arguments: str, **settings: str | None
) -> subprocess.CompletedProcess[str]:
    """Runs code that uses `ocl` in a separate process; settings that are None are unset."""
    settings = {**OCL, "POCL_CACHE_DIR": None, "OUTBOARD_CACHE_DIR": None, **settings}
    given = {name: value for name, value in settings.items() if value is not None}
    unset = [name for name in settings if name not in given]
    # PoCL reads them when it is loaded, and the process may have forked from one without it.
    prelude = f"""
import os
os.environ.update({given!r})
for name in {unset!r}:
    os.environ.pop(name, None)
"""
    return try_python(prelude + code, *arguments, timeout=240)


# One kernel in a separate process, whose PoCL asks once for its folder and for the processor.
_KERNEL_PROCESS = """
import json, os, struct, sys
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client, DriverError

answer = {}
def run(driver, body):
    queue, address = driver.queue_create(0), driver.allocate(0, 256)
    driver.write(queue, address, bytes(256))
    program = driver.program_build(0, "__kernel void f(__global float *x) { %s }" % body)
    kernel = driver.kernel_create(program, "f")
    driver.launch(queue, kernel, [4], [4], address)
    answer["values"] = struct.unpack("4f", driver.read(queue, address, 16))
    answer["binary"] = driver.program_binary(program).decode("latin-1")

try:
    driver = Client(contract.load(ocl.library_path()))
    answer["keys"] = [driver.device_properties(i).driver_version.decode() for i in range(2)]
    exec(sys.argv[2])
    run(driver, sys.argv[1])
except DriverError as error:
    answer["error"] = str(error)
answer["report"] = ocl.describe()
answer["named"] = os.environ.get("POCL_CACHE_DIR")
print(json.dumps(answer), flush=True)
if "error" not in answer:
    driver.call("finalize")
"""


def kernel_process(
    body: str = "x[get_global_id(0)] = 3;", code: str = "", **settings: str | None
) -> subprocess.CompletedProcess[str]:
    """Runs a kernel with this body on `ocl` in a separate process, after `code`."""
    return ocl_process(_KERNEL_PROCESS, body, code, **settings)


def answer_of(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """The output of such a process: values, binary or error, keys of binaries, report, folder."""
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer
