"""Programs, kernels and launches of OpenCL beyond the contract (test_driver_programs.py)."""

import ctypes
import itertools
import time
from pathlib import Path

import pytest
from driver_support import OCL, DriverUnderTest, fails_with, open_driver
from program_support import refuses_binaries

from tests.support import run_python
from torch_outboard.check.sources import KERNELS, ints, kernel_of, read_ints, source_for
from torch_outboard.drivers import ocl
from torch_outboard.drivers.contract import Feature, Status

pytestmark = [
    pytest.mark.ocl_only,
    pytest.mark.opencl,
]


def test_kernel_attributes(driver: DriverUnderTest, queue: int) -> None:
    properties = driver.device_properties(0)
    attributes = driver.kernel_attributes(kernel_of(driver, "add"))
    assert 1 <= attributes.max_work_group_size <= properties.max_work_group_size
    assert attributes.local_memory <= properties.local_memory


def test_binaries(driver: DriverUnderTest) -> None:
    """They serve all devices of a kind, and none is taken that is not whole."""
    program = driver.program_build(0, source_for(driver, KERNELS))
    binary = driver.program_binary(program)
    room = ctypes.create_string_buffer(len(binary))
    size = ctypes.c_uint64(len(binary) - 1)
    status = driver.status("program_binary", program, room, ctypes.byref(size))
    assert status == Status.INVALID_ARGUMENT
    assert room.raw == bytes(len(binary))
    driver.program_release(program)
    elsewhere = driver.program_load(1, binary)
    driver.kernel_release(driver.kernel_create(elsewhere, "increment"))
    driver.program_release(elsewhere)
    refuses_binaries(driver, binary)


# The packaged PoCL reads its header, which defines _OPENCL_H_ as nothing, where it must.
DECLARED = """
#define PASTED(end) mi##end
#define ANY(begin, end) begin##end
__kernel void call(ADDRESS(int, memory)) {
  __global int *data = AT(int, memory);
  data[0] = CALL;
  data[1] = _OPENCL_H_ + 0;
}
"""


def test_declarations_that_a_source_needs(tmp_path: Path) -> None:
    driver = open_driver(tmp_path, ocl, **OCL)
    queue, memory = driver.make_queue(), driver.make_memory(8)
    for call, value, without_header in (
        ("min(data[0], 3)", 3, 1),
        ("PASTED(n)(data[0], 3)", 3, 1),
        ("convert_int(dot((float8)(1), (float8)(data[0])))", 40, 1),  # of PoCL alone
        ("ANY(ma, x)(data[0] - 9, 3)", 3, 0),
    ):
        driver.write(queue, memory, ints(5, -1))
        kernel = kernel_of(driver, "call", source=DECLARED.replace("CALL", call))
        driver.launch(queue, kernel, [1], [1], memory)
        found = read_ints(driver, queue, memory, 2)
        assert found[0] == value, call
        if driver.device_properties(0).driver_version.startswith(b"3.0-rc2"):
            assert found[1] == without_header, call


def test_events_order_kernels_across_queues(driver: DriverUnderTest) -> None:
    """A number is handed round four queues; every step depends on the one before."""
    queues = [driver.make_queue(i % 2) for i in range(4)]
    kernels = [kernel_of(driver, "append", i % 2) for i in range(4)]
    memories = [driver.make_memory(256, i % 2) for i in range(4)]
    events = [driver.make_event(i % 2) for i in range(4)]
    driver.fill(queues[0], memories[0], bytes(4), 256)
    expected = 0
    for step in range(300):
        here, there = step % 4, (step + 1) % 4
        digit = ctypes.c_int32(step % 3)
        expected = (expected * 3 + digit.value + 2**31) % 2**32 - 2**31
        driver.launch(queues[here], kernels[here], [64], [64], memories[here], digit)
        driver.event_record(events[here], queues[here])
        driver.event_wait(queues[there], events[here])
        driver.copy_peer(queues[there], there % 2, memories[there], here % 2, memories[here], 256)
    assert read_ints(driver, queues[0], memories[0], 64) == [expected] * 64


def test_launch_records_its_own_times(driver: DriverUnderTest, queue: int) -> None:
    assert driver.device_properties(0).features & Feature.LAUNCH_EVENTS
    events = [[driver.make_event(timing=True) for _ in range(2)] for _ in range(3)]
    memory, spin = driver.make_memory(4), kernel_of(driver, "spin")
    driver.launch(queue, spin, [1], [1], memory, ctypes.c_int32(1))
    driver.queue_synchronize(queue)
    rounds = ctypes.c_int32(10_000_000)
    before = time.monotonic_ns()
    time.sleep(0.05)
    for start, end in events:
        driver.launch(queue, spin, [1], [1], memory, rounds, start=start, end=end)
    for start, end in events:
        driver.event_synchronize(end)
        assert driver.event_query(start)
    after = time.monotonic_ns()
    times = [[driver.event_time(event) for event in pair] for pair in events]
    tolerance = 1_000_000
    # The first begins when it is launched, and not when the queue was idle.
    assert before + 49_000_000 < times[0][0]
    assert times[-1][1] < after + tolerance
    for start, end in times:
        assert end - start > rounds.value / 6  # at most one round a cycle, at 6 GHz
    for (_, end), (start, _) in itertools.pairwise(times):
        assert end <= start
    assert driver.event_elapsed(*events[0]) == pytest.approx((times[0][1] - times[0][0]) / 1e6)
    # Other events cannot be recorded so.
    for event in (driver.make_event(), driver.make_event(1, timing=True)):
        with fails_with(Status.INVALID_ARGUMENT):
            driver.launch(queue, spin, [1], [1], memory, ctypes.c_int32(1), start=event)


@pytest.mark.parametrize("memory", ["shared", "handles"])
def test_addresses_that_are_no_memory(tmp_path: Path, memory: str) -> None:
    driver = open_driver(
        tmp_path, ocl, **OCL, OUTBOARD_OCL_MEMORY=memory
    )  # fault injection would see them
    queue, address = driver.queue_create(0), driver.allocate(0, 4096)
    program = driver.program_build(0, source_for(driver, KERNELS))
    kernel = driver.kernel_create(program, "increment")
    wrongs = {0: "increment is the address 0"}
    if memory == "handles":  # pointers are not looked up
        wrongs[address + 4096] = "do not lie in one allocation"
    for wrong, message in wrongs.items():
        with fails_with(Status.INVALID_ARGUMENT, message):
            driver.launch(queue, kernel, [64], [64], wrong)


@pytest.mark.parametrize("first", [0, 3])
def test_a_kernel_forgets_memory_that_was_released(tmp_path: Path, first: int) -> None:
    """The operating system gives an address again sooner than OpenCL a buffer."""
    driver = open_driver(tmp_path, ocl, **OCL, OUTBOARD_OCL_MEMORY="handles")
    queue, page = driver.queue_create(0), 4096
    program = driver.program_build(0, source_for(driver, KERNELS))
    kernel = driver.kernel_create(program, "increment")
    for _ in range(8):
        before = [driver.allocate(0, page) for _ in range(4)]
        driver.fill(queue, before[first], bytes(4), 256)
        driver.launch(queue, kernel, [64], [64], before[first])
        assert read_ints(driver, queue, before[first], 64) == [1] * 64
        for address in before:
            driver.deallocate(0, address)
        after = [driver.allocate(0, page) for _ in range(4)]
        for address in after:
            driver.fill(queue, address, bytes(4), 256)
        for number, address in enumerate(after, 1):
            driver.launch(queue, kernel, [64], [64], address)
            found = [read_ints(driver, queue, other, 64) for other in after]
            assert found == [[1] * 64] * number + [[0] * 64] * (4 - number)
        for address in after:
            driver.deallocate(0, address)


WITHOUT_LINKER = """
import os

os.environ["PATH"] = "/nonexistent"
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client, DriverError
from torch_outboard.drivers.contract import Status

driver = Client(contract.load(ocl.library_path()))
assert driver.device_properties(0).max_work_group_size == 0
for call in (
    lambda: driver.program_build(0, "__kernel void f(__global int* x) { x[0] = 1; }"),
    lambda: driver.program_load(0, b"anything"),
):
    try:
        call()
    except DriverError as error:
        assert error.status == Status.UNSUPPORTED, error
        assert "install binutils" in str(error), error
    else:
        raise AssertionError("a program was built")
queue, address = driver.queue_create(0), driver.allocate(0, 64)
driver.fill(queue, address, b"ab", 64)
assert driver.read(queue, address, 4) == b"abab"
assert "install binutils" in ocl.describe()
"""


def test_without_a_linker() -> None:
    """PoCL would end the process."""
    if "device 0: Portable Computing Language" not in ocl.describe():
        pytest.skip("the first device is not PoCL's")
    run_python(WITHOUT_LINKER, **OCL)
