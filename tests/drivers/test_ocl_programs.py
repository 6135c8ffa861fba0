"""What is OpenCL's own of programs, kernels and launches; test_driver_programs.py has the rest."""

from __future__ import annotations

import ctypes
import itertools
import time
from pathlib import Path

import pytest
from driver_support import OCL, DriverUnderTest, fails_with, open_driver, reason_without_opencl
from program_support import KERNELS, ints, kernel_of, read_ints, refuses_binaries, source_for

from tests.support import in_threads, run_python
from torch_outboard.drivers import ocl
from torch_outboard.drivers.client import Local
from torch_outboard.drivers.contract import DType, Feature, Status

pytestmark = [
    pytest.mark.ocl_only,
    pytest.mark.skipif(reason_without_opencl() is not None, reason=str(reason_without_opencl())),
]

REVERSE = """
__kernel void reverse(__local int* buffer, ADDRESS(int, data)) {
  size_t i = get_local_id(0), size = get_local_size(0);
  buffer[i] = AT(int, data)[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  AT(int, data)[get_global_id(0)] = buffer[size - 1 - i];
}
"""


def test_local_memory(driver: DriverUnderTest, queue: int) -> None:
    memory, reverse = driver.make_memory(4 * 64), kernel_of(driver, "reverse", text=REVERSE)
    driver.write(queue, memory, ints(*range(64)))
    driver.launch(queue, reverse, [64], [32], Local(4 * 32), memory)
    expected = [*range(31, -1, -1), *range(63, 31, -1)]
    assert read_ints(driver, queue, memory, 64) == expected


def test_a_kernel_of_another_device(driver: DriverUnderTest) -> None:
    queue, memory = driver.make_queue(0), driver.make_memory(256)
    with fails_with(Status.INVALID_ARGUMENT, "device 1 cannot run on a queue of device 0"):
        driver.launch(queue, kernel_of(driver, "increment", 1), [64], [64], memory)


def test_wrong_launches(driver: DriverUnderTest, queue: int) -> None:
    memory, add = driver.make_memory(4096), kernel_of(driver, "add")
    good = memory, memory, ctypes.c_int32(1), memory, ctypes.c_int64(1)
    driver.launch(queue, add, [64], [64], *good)
    largest = driver.device_properties(0).max_work_group_size
    for global_size, local_size, arguments in [
        ([100], [64], good),
        ([0], [64], good),
        ([64], [0], good),
        ([], [], good),
        ([2 * largest], [2 * largest], good),
        ([64], [64], (*good, ctypes.c_int32(1))),
        ([64], [64], (memory, memory, ctypes.c_int64(1), memory, ctypes.c_int64(1))),
    ]:
        with fails_with(Status.INVALID_ARGUMENT, "add"):
            driver.launch(queue, add, global_size, local_size, *arguments)
    driver.launch(queue, add, [64], [64], *good)
    driver.queue_synchronize(queue)


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


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("min(data[0], 3)", True),
        ("PASTED(n)(data[0], 3)", True),
        ("convert_int(dot((float8)(1), (float8)(data[0])))", True),
        ("ANY(ma, x)(data[0] - 9, 3)", False),
    ],
    ids=["named", "pasted", "of PoCL alone", "hidden"],
)
def test_declarations_that_a_source_needs(
    driver: DriverUnderTest, queue: int, call: str, known: bool
) -> None:
    """The packaged PoCL reads its header, which defines _OPENCL_H_ as nothing, where it must."""
    source = f"""
#define PASTED(end) mi##end
#define ANY(begin, end) begin##end
__kernel void call(ADDRESS(int, memory)) {{
  __global int *data = AT(int, memory);
  data[0] = {call};
  data[1] = _OPENCL_H_ + 0;
}}
"""
    memory = driver.make_memory(8)
    driver.write(queue, memory, ints(5, -1))
    driver.launch(queue, kernel_of(driver, "call", text=source), [1], [1], memory)
    value, without_header = read_ints(driver, queue, memory, 2)
    assert value == (40 if "dot" in call else 3)
    if driver.device_properties(0).driver_version.startswith(b"3.0-rc2"):
        assert without_header == int(known)


def test_capabilities_are_true(driver: DriverUnderTest, queue: int) -> None:
    """What is declared compiles and computes."""
    properties = driver.device_properties(0)
    memory = driver.make_memory(8)
    for dtype, body, before, after in (
        (DType.FLOAT64, "__global double* d = (__global double*)AT(int, x); d[0] = d[0] / 3;",
         ctypes.c_double(1), ctypes.c_double(1 / 3)),
        (DType.FLOAT16, "__global half* h = (__global half*)AT(int, x); h[0] = h[0] + h[0];",
         ctypes.c_uint64(0x3C00), ctypes.c_uint64(0x4000)),
    ):  # fmt: skip
        if not properties.dtypes & dtype:
            continue
        text = f"__kernel void f(ADDRESS(int, x)) {{ {body} }}"
        driver.write(queue, memory, bytes(before))
        driver.launch(queue, kernel_of(driver, "f", text=text), [1], [1], memory)
        assert driver.read(queue, memory, 8) == bytes(after), dtype


def test_threads_with_queues_of_their_own(driver: DriverUnderTest) -> None:
    places = [
        (driver.make_queue(), driver.make_memory(4096), kernel_of(driver, "append"))
        for _ in range(2)
    ]

    def work(number: int) -> None:
        queue, memory, kernel = places[number]
        digit = ctypes.c_int32(number + 1)
        for _ in range(40):
            driver.fill(queue, memory, bytes(4), 4096)
            for _ in range(5):
                driver.launch(queue, kernel, [1024], [64], memory, digit)
            assert read_ints(driver, queue, memory, 1024) == [digit.value * 121] * 1024

    in_threads(work, 2)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_thousand_events_across_queues(driver: DriverUnderTest, devices: int) -> None:
    """A number is handed round four queues; every step depends on the one before."""
    queues = [driver.make_queue(i % devices) for i in range(4)]
    kernels = [kernel_of(driver, "append", i % devices) for i in range(4)]
    memories = [driver.make_memory(256, i % devices) for i in range(4)]
    events = [driver.make_event(i % devices) for i in range(4)]
    driver.fill(queues[0], memories[0], bytes(4), 256)
    expected = 0
    for step in range(1000):
        here, there = step % 4, (step + 1) % 4
        digit = ctypes.c_int32(step % 3)
        expected = (expected * 3 + digit.value + 2**31) % 2**32 - 2**31
        driver.launch(queues[here], kernels[here], [64], [64], memories[here], digit)
        driver.event_record(events[here], queues[here])
        driver.event_wait(queues[there], events[here])
        driver.copy_peer(
            queues[there], there % devices, memories[there], here % devices, memories[here], 256
        )
    assert read_ints(driver, queues[0], memories[0], 64) == [expected] * 64


def test_timing_of_a_kernel(driver: DriverUnderTest, queue: int) -> None:
    start, between, end = (driver.make_event(timing=True) for _ in range(3))
    memory, spin = driver.make_memory(4), kernel_of(driver, "spin")
    driver.launch(queue, spin, [1], [1], memory, ctypes.c_int32(1))
    driver.queue_synchronize(queue)
    rounds = ctypes.c_int32(30_000_000)
    began = time.perf_counter()
    driver.event_record(start, queue)
    driver.launch(queue, spin, [1], [1], memory, rounds)
    driver.event_record(between, queue)
    driver.launch(queue, spin, [1], [1], memory, ctypes.c_int32(1))
    driver.event_record(end, queue)
    driver.event_synchronize(end)
    passed = 1e3 * (time.perf_counter() - began)
    long, short = driver.event_elapsed(start, between), driver.event_elapsed(between, end)
    assert 0 < short < long <= passed
    # At most one multiplication and addition a cycle, at 6 GHz.
    assert long > rounds.value / 6e6


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


def test_events_that_a_launch_cannot_record(driver: DriverUnderTest, queue: int) -> None:
    memory, spin = driver.make_memory(4), kernel_of(driver, "spin")
    for event in (driver.make_event(), driver.make_event(1, timing=True)):
        with fails_with(Status.INVALID_ARGUMENT):
            driver.launch(queue, spin, [1], [1], memory, ctypes.c_int32(1), start=event)


@pytest.mark.parametrize("memory", ["shared", "coarse", "handles"])
def test_addresses_that_are_no_memory(tmp_path: Path, memory: str) -> None:
    driver = open_driver(tmp_path, ocl, **OCL, OUTBOARD_OCL_MEMORY=memory)  # torture would see them
    queue, address = driver.queue_create(0), driver.allocate(0, 4096)
    program = driver.program_build(0, source_for(driver, KERNELS))
    kernel = driver.kernel_create(program, "increment")
    wrongs = {0: "increment is the address 0"}
    if memory == "handles":  # pointers are not looked up
        wrongs[address + 4096] = "do not lie in one allocation"
    for wrong, message in wrongs.items():
        with fails_with(Status.INVALID_ARGUMENT, message):
            driver.launch(queue, kernel, [64], [64], wrong)


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
