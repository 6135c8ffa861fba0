"""Programs, kernels and launches of the driver `host`, by whatever clang this machine has."""

from __future__ import annotations

import array
import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver_support import MEMORY, DriverUnderTest, open_driver, reason_without_clang
from program_support import ints, read_ints

from torch_outboard.drivers import host
from torch_outboard.drivers.client import DriverError, Local
from torch_outboard.drivers.contract import Status

pytestmark = pytest.mark.skipif(
    reason_without_clang() is not None, reason=str(reason_without_clang())
)

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """
typedef struct { int bias[3]; long factor; } numbers;

__kernel void add(__global const int* a, __global int* restrict out, const numbers n, int4 four) {
  const size_t i = get_global_id(0);
  out[i] = a[i] * (int)n.factor + n.bias[1] + four.z;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void coordinates(__global int* out /* x, y, z) */) {
  const size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  const size_t i = (z * get_global_size(1) + y) * get_global_size(0) + x;
  out[i] += (int)(x + 1000 * y + 1000000 * z + get_local_id(0) + get_local_size(1) - 1);
}

__kernel void exchange(__local int* buffer, __global int* data, __local int* other) {
  const size_t i = get_global_id(0);
  buffer[0] = data[2 * i];
  other[0] = data[2 * i + 1];
  barrier(CLK_LOCAL_MEM_FENCE);
  data[2 * i] = other[0];
  data[2 * i + 1] = buffer[0];
}

__kernel void append(__global int* data, int digit) {
  const size_t i = get_global_id(0);
  data[i] = data[i] * 3 + digit;
}

__kernel void spin(__global int* data, int rounds) {
  int value = data[get_global_id(0)];
  for (int i = 0; i < rounds; ++i) value = value * 1664525 + 1013904223;
  data[get_global_id(0)] = value;
}

__kernel void nothing(void) {}
"""


class Numbers(ctypes.Structure):
    _fields_ = (("bias", ctypes.c_int32 * 3), ("factor", ctypes.c_int64))


@pytest.fixture(scope="module", params=["shared", "separate"])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> DriverUnderTest:
    """A driver with four threads, whatever this machine has."""
    return open_driver(
        tmp_path_factory.mktemp("host"),
        OUTBOARD_HOST_ACCESS=request.param,
        OUTBOARD_HOST_DEVICES="2",
        OUTBOARD_HOST_MEMORY=str(MEMORY),
        OUTBOARD_HOST_THREADS="4",
        OUTBOARD_TORTURE="count",
    )


@pytest.fixture(scope="module")
def program(opened: DriverUnderTest) -> int:
    """SOURCE on device 0, built once."""
    return opened.program_build(0, SOURCE)


@pytest.fixture
def queue(opened: DriverUnderTest) -> Iterator[int]:
    made = opened.queue_create(0)
    yield made
    opened.queue_destroy(made)


@pytest.fixture
def make_kernel(opened: DriverUnderTest, program: int) -> Iterator[Callable[[str], int]]:
    made: list[int] = []

    def make(name: str) -> int:
        made.append(opened.kernel_create(program, name))
        return made[-1]

    yield make
    for kernel in made:
        opened.kernel_release(kernel)


@pytest.fixture
def memory(opened: DriverUnderTest) -> Iterator[int]:
    """A mebibyte."""
    address = opened.allocate(0, 1 << 20)
    yield address
    opened.deallocate(0, address)


Make = Callable[[str], int]


def test_properties(opened: DriverUnderTest) -> None:
    properties = opened.device_properties(0)
    assert properties.max_work_group_size == 1
    assert properties.preferred_vector_width in (4, 8, 16)
    assert properties.compute_units == 4
    assert b"clang" in properties.driver_version


def test_values_and_structs(
    opened: DriverUnderTest, queue: int, memory: int, make_kernel: Make
) -> None:
    opened.fill(queue, memory, b"\xee", 8192)
    opened.write(queue, memory + 128, ints(*range(500)))
    numbers = Numbers(bias=(0, 7, 0), factor=-3)
    four = (ctypes.c_int32 * 4)(0, 0, 100, 0)
    opened.launch(queue, make_kernel("add"), [500], [1], memory + 128, memory + 4100, numbers, four)
    assert read_ints(opened, queue, memory + 4100, 500) == [107 - 3 * i for i in range(500)]
    assert opened.read(queue, memory + 4096, 4) == opened.read(queue, memory + 6100, 4)
    assert opened.read(queue, memory + 4096, 4) == b"\xee" * 4


@pytest.mark.parametrize(
    "sizes", [(1,), (5,), (4099,), (3, 2), (1, 1, 7), (2, 5, 3), (129, 3, 2), (1, 700, 1)]
)
def test_every_item_runs_once(
    opened: DriverUnderTest, queue: int, memory: int, make_kernel: Make, sizes: tuple[int, ...]
) -> None:
    """The first time shared, later as its time says."""
    kernel = make_kernel("coordinates")
    width, height, depth = (*sizes, 1, 1)[:3]
    count = width * height * depth
    once = [
        x + 1000 * y + 1000000 * z
        for z in range(depth)
        for y in range(height)
        for x in range(width)
    ]
    for _ in range(3):
        opened.fill(queue, memory, bytes(4), 4 * count + 4)
        opened.launch(queue, kernel, list(sizes), [1] * len(sizes), memory)
        assert read_ints(opened, queue, memory, count + 1) == [*once, 0]


def test_local_memory(opened: DriverUnderTest, queue: int, memory: int, make_kernel: Make) -> None:
    """Each thread has its own."""
    kernel = make_kernel("exchange")
    for _ in range(5):
        opened.write(queue, memory, ints(*range(2000)))
        opened.launch(queue, kernel, [1000], [1], Local(4), memory, Local(16))
        expected = [i ^ 1 for i in range(2000)]
        assert read_ints(opened, queue, memory, 2000) == expected
    with pytest.raises(DriverError, match="local memory") as error:
        opened.launch(queue, kernel, [1], [1], Local(1 << 20), memory, Local(4))
    assert error.value.status == Status.INVALID_ARGUMENT


def test_captured_launches(opened: DriverUnderTest, queue: int, memory: int, program: int) -> None:
    """A graph keeps the kernels of its launches, and what they were launched with."""
    kernel = opened.kernel_create(program, "append")
    opened.fill(queue, memory, bytes(4), 256)
    opened.graph_begin(queue)
    for digit in (1, 2):
        opened.launch(queue, kernel, [64], [1], memory, ctypes.c_int32(digit))
    graph = opened.graph_end(queue)
    opened.kernel_release(kernel)
    gc.collect()
    assert read_ints(opened, queue, memory, 64) == [0] * 64
    for _ in range(2):
        opened.graph_launch(queue, graph)
    assert read_ints(opened, queue, memory, 64) == [((1 * 3 + 2) * 3 + 1) * 3 + 2] * 64
    opened.graph_release(graph)


def test_wrong_launches(
    opened: DriverUnderTest, queue: int, memory: int, make_kernel: Make
) -> None:
    kernel = make_kernel("append")
    good = memory, ctypes.c_int32(1)
    for global_size, local_size, arguments in [
        ([64], [2], good),
        ([0], [1], good),
        ([64], [0], good),
        ([], [], good),
        ([64], [1], (*good, ctypes.c_int32(1))),
        ([64], [1], (memory,)),
        ([64], [1], (memory, ctypes.c_int64(1))),
        ([64], [1], (memory, memory)),
        ([64], [1], (ctypes.c_int64(0), ctypes.c_int32(1))),
        ([64], [1], (0, ctypes.c_int32(1))),
    ]:
        with pytest.raises(DriverError) as error:
            opened.launch(queue, kernel, global_size, local_size, *arguments)
        assert error.value.status == Status.INVALID_ARGUMENT
    other = opened.queue_create(1)
    with pytest.raises(DriverError, match="of device 1"):
        opened.launch(other, kernel, [64], [1], *good)
    opened.queue_destroy(other)


def test_log(opened: DriverUnderTest) -> None:
    text = "__kernel void f(__global int* x) { x[0] = ANSWER; }"
    for options in ("", "-DANSWER=1 --no-such-option"):
        with pytest.raises(DriverError, match="error: ") as error:
            opened.program_build(0, text, options)
        assert error.value.status == Status.BUILD_FAILED


def test_binary(opened: DriverUnderTest, queue: int, memory: int, program: int) -> None:
    binary = opened.program_binary(program)
    loaded = opened.program_load(0, binary)
    kernel = opened.kernel_create(loaded, "append")
    opened.fill(queue, memory, bytes(4), 256)
    opened.launch(queue, kernel, [64], [1], memory, ctypes.c_int32(5))
    assert read_ints(opened, queue, memory, 64) == [5] * 64
    opened.kernel_release(kernel)
    opened.program_release(loaded)
    for damaged in (
        b"",
        binary[:10],
        binary[:-1],
        b"\0" * len(binary),
        binary[:-1] + bytes([binary[-1] ^ 1]),
    ):
        with pytest.raises(DriverError, match="no binary of this driver, or are damaged") as error:
            opened.program_load(0, damaged)
        assert error.value.status == Status.INVALID_ARGUMENT


def test_programs_of_one_name(opened: DriverUnderTest, queue: int, memory: int) -> None:
    """Descriptors are used again, and each program is its own all the same."""
    text = "__kernel void f(__global int* x) {{ x[{0}] = {0}; }}"
    programs = [opened.program_build(0, text.format(i)) for i in range(4)]
    opened.program_release(programs.pop(1))
    programs.append(opened.program_build(0, text.format(4)))
    kernels = [opened.kernel_create(each, "f") for each in programs]
    opened.fill(queue, memory, ints(-1), 20)
    for kernel in kernels:
        opened.launch(queue, kernel, [1], [1], memory)
    assert read_ints(opened, queue, memory, 5) == [0, -1, 2, 3, 4]
    for kernel, each in zip(kernels, programs, strict=True):
        opened.program_release(each)
        opened.kernel_release(kernel)


def test_queues_at_once(opened: DriverUnderTest, make_kernel: Make) -> None:
    """One launch is shared among the threads while others run alone; all are right."""
    queues = [opened.queue_create(0) for _ in range(3)]
    memories = [opened.allocate(0, 4096) for _ in queues]
    kernels = [make_kernel("spin") for _ in queues]
    expected = 0
    for _ in range(200):
        expected = (expected * 1664525 + 1013904223) & 0xFFFFFFFF
    wrong: list[object] = []

    def work(queue: int, memory: int, kernel: int) -> None:
        try:
            for _ in range(40):
                opened.fill(queue, memory, bytes(4), 4096)
                for rounds in (60, 40, 100):
                    opened.launch(queue, kernel, [1024], [1], memory, ctypes.c_int32(rounds))
                values = array.array("I", opened.read(queue, memory, 4096))
                if set(values) != {expected}:
                    wrong.append(set(values))
        except Exception as error:
            wrong.append(error)

    threads = [
        threading.Thread(target=work, args=each)
        for each in zip(queues, memories, kernels, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for queue, memory in zip(queues, memories, strict=True):
        opened.queue_destroy(queue)
        opened.deallocate(0, memory)
    assert wrong == []


# A process of its own: what it does at its end is part of the test.
RUN = """
import ctypes, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from driver_support import open_driver
driver = open_driver(Path(sys.argv[2]), OUTBOARD_HOST_THREADS="4", OUTBOARD_HOST_MEMORY="1000000")
text = "__kernel void f(__global int* x, int y) { x[get_global_id(0)] += y; }"
kernel = driver.kernel_create(driver.program_build(0, text), "f")
queue, memory = driver.queue_create(0), driver.allocate(0, 4000)
driver.fill(queue, memory, bytes(4), 4000)

def run(count):
    for _ in range(count):
        driver.launch(queue, kernel, [1000], [1], memory, ctypes.c_int32(1))
    return driver.read(queue, memory, 4)[0]
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN + code, str(Path(__file__).parent), str(folder)]
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.slow  # a process that imports PyTorch
def test_fork_and_exit(tmp_path: Path) -> None:
    """A child that ends takes nothing with it, and neither its end nor ours waits for threads."""
    code = """
run(100)
if (child := os.fork()) == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), run(50))
for _ in range(100):
    driver.launch(queue, kernel, [1000], [1], memory, ctypes.c_int32(1))
if len(sys.argv) > 3:
    driver.finalize()
"""
    result = run(tmp_path, code)
    assert (result.returncode, result.stdout) == (0, "7 150\n"), result.stderr
    result = run(tmp_path, code.replace("len(sys.argv) > 3", "True"))
    assert (result.returncode, result.stdout) == (0, "7 150\n"), result.stderr


@pytest.mark.slow  # compiles the driver
def test_where_the_system_lacks_things(tmp_path: Path) -> None:
    """Without files in memory, and without a way to close all descriptors in a child."""
    folders = [ROOT / "torch_outboard" / "drivers" / name for name in ("host", "compiler")]
    sources = [str(path) for folder in folders for path in folder.glob("*.c")]
    library = tmp_path / "libob_host.so"
    command = ["cc", "-std=c11", "-shared", "-fPIC", "-I", ROOT / "csrc" / "include"]
    command += ["-I", ROOT / "torch_outboard" / "drivers", *sources, "-o", library]
    flags = ["-DOUTBOARD_WITHOUT_MEMFD", "-DOUTBOARD_WITHOUT_CLOSEFROM"]
    subprocess.run([*command, *flags, "-ldl", "-lpthread"], check=True)

    class Module:
        __name__ = host.__name__

        @staticmethod
        def library_path() -> str:
            return str(library)

    other = tmp_path / "other"
    other.mkdir()
    driver = open_driver(other, Module, OUTBOARD_HOST_MEMORY="1000000")  # type: ignore[arg-type]
    queue, memory = driver.queue_create(0), driver.allocate(0, 64)
    for answer in range(3):
        text = f"__kernel void f(__global int* x) {{ x[0] = {answer}; }}"
        kernel = driver.kernel_create(driver.program_build(0, text), "f")
        driver.launch(queue, kernel, [1], [1], memory)
        assert read_ints(driver, queue, memory, 1) == [answer]
    driver.queue_destroy(queue)
