"""Programs of the driver `host` beyond the contract, which test_driver_programs.py tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_support import MEMORY, DriverUnderTest, open_driver, reason_without_clang
from program_support import refuses_binaries

from tests.support import run_python
from torch_outboard.check.sources import ints, read_ints

pytestmark = pytest.mark.skipif(
    reason_without_clang() is not None, reason=str(reason_without_clang())
)

SOURCE = """
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void coordinates(__global int* out /* x, y, z) */) {
  const size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  const size_t i = (z * get_global_size(1) + y) * get_global_size(0) + x;
  out[i] += (int)(x + 1000 * y + 1000000 * z + get_local_id(0) + get_local_size(1) - 1);
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverUnderTest]:
    """A driver with four threads, whatever this machine has."""
    opened = open_driver(
        tmp_path_factory.mktemp("host"),
        OUTBOARD_HOST_ACCESS="separate",
        OUTBOARD_HOST_DEVICES="2",
        OUTBOARD_HOST_MEMORY=str(MEMORY),
        OUTBOARD_HOST_THREADS="4",
        OUTBOARD_FAULTS="count",
    )
    yield opened
    opened.let_go()


@pytest.fixture(scope="module")
def memory(driver: DriverUnderTest) -> int:
    """A mebibyte."""
    return driver.make_memory(1 << 20)


def test_properties(driver: DriverUnderTest) -> None:
    properties = driver.device_properties(0)
    assert properties.max_work_group_size == 1
    assert properties.preferred_vector_width in (4, 8, 16)
    assert properties.compute_units == 4
    assert b"clang" in properties.driver_version


@pytest.mark.parametrize(
    "sizes", [(1,), (5,), (4099,), (3, 2), (1, 1, 7), (2, 5, 3), (129, 3, 2), (1, 700, 1)]
)
def test_every_item_runs_once(
    driver: DriverUnderTest, queue: int, memory: int, sizes: tuple[int, ...]
) -> None:
    """The first time shared, later as its time says."""
    kernel = driver.make_kernel(SOURCE, "coordinates")
    width, height, depth = (*sizes, 1, 1)[:3]
    count = width * height * depth
    once = [
        x + 1000 * y + 1000000 * z
        for z in range(depth)
        for y in range(height)
        for x in range(width)
    ]
    for _ in range(3):
        driver.fill(queue, memory, bytes(4), 4 * count + 4)
        driver.launch(queue, kernel, list(sizes), [1] * len(sizes), memory)
        assert read_ints(driver, queue, memory, count + 1) == [*once, 0]


def test_damaged_binaries(driver: DriverUnderTest) -> None:
    refuses_binaries(driver, driver.binary_of(SOURCE))


def test_programs_of_one_name(driver: DriverUnderTest, queue: int, memory: int) -> None:
    """Descriptors are used again, and each program is its own all the same."""
    source = "__kernel void f(__global int* x) {{ x[{0}] = {0}; }}"
    programs = [driver.program_build(0, source.format(i)) for i in range(4)]
    driver.program_release(programs.pop(1))
    programs.append(driver.program_build(0, source.format(4)))
    kernels = [driver.kernel_create(each, "f") for each in programs]
    driver.fill(queue, memory, ints(-1), 20)
    for kernel in kernels:
        driver.launch(queue, kernel, [1], [1], memory)
    assert read_ints(driver, queue, memory, 5) == [0, -1, 2, 3, 4]
    for kernel, each in zip(kernels, programs, strict=True):
        driver.program_release(each)
        driver.kernel_release(kernel)


# A process of its own: what it does at its end is part of the test.
RUN = """
import ctypes, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from driver_support import open_driver
driver = open_driver(Path(sys.argv[2]), OUTBOARD_HOST_THREADS="4", OUTBOARD_HOST_MEMORY="1000000")
source = "__kernel void f(__global int* x, int y) { x[get_global_id(0)] += y; }"
kernel = driver.kernel_create(driver.program_build(0, source), "f")
queue, memory = driver.queue_create(0), driver.allocate(0, 4000)
driver.fill(queue, memory, bytes(4), 4000)

def run(count):
    for _ in range(count):
        driver.launch(queue, kernel, [1000], [1], memory, ctypes.c_int32(1))
    return driver.read(queue, memory, 4)[0]

run(100)
if (child := os.fork()) == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), run(50))
for _ in range(100):
    driver.launch(queue, kernel, [1000], [1], memory, ctypes.c_int32(1))
if sys.argv[3] == "finalized":
    driver.finalize()
"""


@pytest.mark.parametrize("end", ["finalized", "not finalized"])
def test_fork_and_exit(tmp_path: Path, end: str) -> None:
    """A child that ends takes nothing with it, and neither its end nor ours waits for threads."""
    assert run_python(RUN, str(Path(__file__).parent), str(tmp_path), end) == "7 150\n"
