"""Sources of kernels that tests of programs launch, and processes that do."""

import array
import json
import subprocess

from driver_support import OCL, DriverUnderTest, fails_with

from tests.support import try_python
from torch_outboard.drivers.contract import Addressing, Status

# One source for pointers and for (memory object, offset in bytes).
_MACROS = {
    Addressing.POINTER: """
#define ADDRESS(type, name) __global type* name
#define AT(type, name) name
""",
    Addressing.HANDLE: """
#define ADDRESS(type, name) __global type* name##_start, ulong name##_offset
#define AT(type, name) ((__global type*)((__global char*)name##_start + name##_offset))
""",
}
KERNELS = """
__kernel void add(ADDRESS(int, a), ADDRESS(int, b), int factor, ADDRESS(int, out), long bias) {
  size_t i = get_global_id(0);
  AT(int, out)[i] = AT(int, a)[i] + factor * AT(int, b)[i] + (int)bias;
}

__kernel void coordinates(ADDRESS(int, out)) {
  size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  size_t i = (z * get_global_size(1) + y) * get_global_size(0) + x;
  AT(int, out)[2 * i] = (int)(x + 100 * y + 10000 * z + 1000000 * get_local_id(1));
  AT(int, out)[2 * i + 1] =
      (int)(get_group_id(0) + 10 * get_group_id(1) + 100 * get_num_groups(1) +
            1000 * get_local_size(0) + 10000 * get_work_dim() + 100000 * get_global_offset(2));
}

__kernel void increment(ADDRESS(int, data)) { AT(int, data)[get_global_id(0)] += 1; }

__kernel void append(ADDRESS(int, data), int digit) {
  AT(int, data)[get_global_id(0)] = AT(int, data)[get_global_id(0)] * 3 + digit;
}

__kernel void spin(ADDRESS(int, data), int rounds) {
  size_t i = get_global_id(0);
  int value = AT(int, data)[i];
  for (int round = 0; round < rounds; ++round) value = value * 1664525 + 1013904223;
  AT(int, data)[i] = value;
}
"""


def source_for(driver: DriverUnderTest, source: str) -> str:
    """A source in which ADDRESS declares a parameter, and AT is the pointer that it stands for."""
    return _MACROS[Addressing(driver.device_properties(0).addressing)] + source


def kernel_of(driver: DriverUnderTest, name: str, device: int = 0, source: str = KERNELS) -> int:
    """A kernel of such a source, released after the test."""
    return driver.make_kernel(source_for(driver, source), name, device)


def ints(*values: int) -> bytes:
    """Values as a kernel's `int`s lie in memory."""
    return array.array("i", values).tobytes()


def read_ints(driver: DriverUnderTest, queue: int, address: int, count: int) -> list[int]:
    """The same from memory of a device, after the work of the queue so far."""
    return list(array.array("i", driver.read(queue, address, 4 * count)))


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
        with fails_with(Status.INVALID_ARGUMENT, "no binary of this driver, or are damaged"):
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
