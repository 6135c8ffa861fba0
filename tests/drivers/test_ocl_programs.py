"""What is OpenCL's own of programs, kernels and launches; test_driver_programs.py has the rest."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver_support import OCL, DriverUnderTest, open_driver, reason_without_opencl
from program_support import ints, kernel_maker, read_ints, source_for

from torch_outboard.drivers import ocl
from torch_outboard.drivers.client import DriverError, Local
from torch_outboard.drivers.contract import DType, Feature, Status

pytestmark = [
    pytest.mark.ocl_only,
    pytest.mark.skipif(reason_without_opencl() is not None, reason=str(reason_without_opencl())),
]

Make = Callable[..., int]

SOURCE = """
__kernel void add(ADDRESS(int, a), ADDRESS(int, b), int factor, ADDRESS(int, out), long bias) {
  size_t i = get_global_id(0);
  AT(int, out)[i] = AT(int, a)[i] + factor * AT(int, b)[i] + (int)bias;
}

__kernel void reverse(__local int* buffer, ADDRESS(int, data)) {
  size_t i = get_local_id(0), size = get_local_size(0);
  buffer[i] = AT(int, data)[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  AT(int, data)[get_global_id(0)] = buffer[size - 1 - i];
}

__kernel void increment(ADDRESS(int, data)) { AT(int, data)[get_global_id(0)] += 1; }

__kernel void append(ADDRESS(int, data), int digit) {
  AT(int, data)[get_global_id(0)] = AT(int, data)[get_global_id(0)] * 3 + digit;
}

__kernel void spin(ADDRESS(int, data), int rounds) {
  int value = AT(int, data)[0];
  for (int i = 0; i < rounds; ++i) value = value * 1664525 + 1013904223;
  AT(int, data)[0] = value;
}
"""


@pytest.fixture
def make_kernel(driver: DriverUnderTest) -> Iterator[Callable[..., int]]:
    """Creates kernels (name, device) of SOURCE that are released after the test."""
    text = source_for(driver, SOURCE)
    with kernel_maker(driver, lambda device: driver.program_build(device, text)) as make:
        yield make


def test_local_memory(
    driver: DriverUnderTest, queue: int, make_memory: Make, make_kernel: Make
) -> None:
    memory = make_memory(4 * 64)
    driver.write(queue, memory, ints(*range(64)))
    driver.launch(queue, make_kernel("reverse"), [64], [32], Local(4 * 32), memory)
    expected = [*range(31, -1, -1), *range(63, 31, -1)]
    assert read_ints(driver, queue, memory, 64) == expected


def test_a_kernel_of_another_device(
    driver: DriverUnderTest, make_queue: Make, make_memory: Make, make_kernel: Make
) -> None:
    queue, memory = make_queue(0), make_memory(256)
    with pytest.raises(DriverError, match="device 1 cannot run on a queue of device 0") as error:
        driver.launch(queue, make_kernel("increment", 1), [64], [64], memory)
    assert error.value.status == Status.INVALID_ARGUMENT


def test_options_of_no_compiler(driver: DriverUnderTest) -> None:
    with pytest.raises(DriverError) as error:
        driver.program_build(0, source_for(driver, SOURCE), "--no-such-option")
    assert error.value.status == Status.BUILD_FAILED


def test_wrong_launches(
    driver: DriverUnderTest, queue: int, make_memory: Make, make_kernel: Make
) -> None:
    memory, add = make_memory(4096), make_kernel("add")
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
        with pytest.raises(DriverError, match="add") as error:
            driver.launch(queue, add, global_size, local_size, *arguments)
        assert error.value.status == Status.INVALID_ARGUMENT
    driver.launch(queue, add, [64], [64], *good)
    driver.queue_synchronize(queue)


def test_kernel_attributes(driver: DriverUnderTest, queue: int, make_kernel: Make) -> None:
    properties = driver.device_properties(0)
    attributes = driver.kernel_attributes(make_kernel("add"))
    assert 1 <= attributes.max_work_group_size <= properties.max_work_group_size
    assert attributes.local_memory <= properties.local_memory


def test_binary(driver: DriverUnderTest, queue: int, make_memory: Make) -> None:
    memory = make_memory(256)
    program = driver.program_build(0, source_for(driver, SOURCE))
    kernel = driver.kernel_create(program, "increment")
    driver.fill(queue, memory, bytes(4), 256)
    driver.launch(queue, kernel, [64], [64], memory)
    driver.queue_synchronize(queue)
    binary = driver.program_binary(program)
    driver.kernel_release(kernel)
    driver.program_release(program)

    for device in range(2):
        loaded = driver.program_load(device, binary)
        kernel = driver.kernel_create(loaded, "increment")
        if device == 0:
            driver.launch(queue, kernel, [64], [64], memory)
            assert read_ints(driver, queue, memory, 64) == [2] * 64
        driver.kernel_release(kernel)
        driver.program_release(loaded)

    for damaged in (
        binary[:-1],
        binary[: len(binary) // 2],
        binary[:10],
        b"\0" * len(binary),
        binary[:-1] + bytes([binary[-1] ^ 1]),
        binary[:5000] + b"x" + binary[5001:],
    ):
        with pytest.raises(DriverError, match="no binary of this driver, or are damaged") as error:
            driver.program_load(0, damaged)
        assert error.value.status == Status.INVALID_ARGUMENT


def test_size_of_a_binary(driver: DriverUnderTest) -> None:
    program = driver.program_build(0, source_for(driver, SOURCE))
    size = ctypes.c_uint64()
    driver.call("program_binary", program, None, ctypes.byref(size))
    room = ctypes.create_string_buffer(size.value)
    wrong = ctypes.c_uint64(size.value - 1)
    status = driver.status("program_binary", program, room, ctypes.byref(wrong))
    assert status == Status.INVALID_ARGUMENT
    assert room.raw == bytes(size.value)
    driver.program_release(program)


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
    driver: DriverUnderTest, queue: int, make_memory: Make, call: str, known: bool
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
    memory = make_memory(8)
    driver.write(queue, memory, ints(5, -1))
    with kernel_maker(
        driver, lambda d: driver.program_build(d, source_for(driver, source))
    ) as make:
        driver.launch(queue, make("call"), [1], [1], memory)
        value, without_header = read_ints(driver, queue, memory, 2)
    assert value == (40 if "dot" in call else 3)
    if driver.device_properties(0).driver_version.startswith(b"3.0-rc2"):
        assert without_header == int(known)


def test_capabilities_are_true(driver: DriverUnderTest, queue: int, make_memory: Make) -> None:
    """What is declared compiles and computes."""
    properties = driver.device_properties(0)
    bodies = {}
    if properties.dtypes & DType.FLOAT64:
        bodies["double"] = "__global double* d = (__global double*)AT(int, x); d[0] = d[0] / 3;"
    if properties.dtypes & DType.FLOAT16:
        bodies["half"] = "__global half* h = (__global half*)AT(int, x); h[0] = h[0] + h[0];"
    inputs = {
        "double": (ctypes.c_double(1), ctypes.c_double(1 / 3)),
        "half": (ctypes.c_uint64(0x3C00), ctypes.c_uint64(0x4000)),
    }
    memory = make_memory(8)
    pragmas = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
    for name, body in bodies.items():
        text = source_for(driver, f"{pragmas}__kernel void f(ADDRESS(int, x)) {{ {body} }}")
        program = driver.program_build(0, text)
        kernel = driver.kernel_create(program, "f")
        before, after = inputs[name]
        driver.write(queue, memory, bytes(before))
        items = 64 if name == "atomics" else 1
        driver.launch(queue, kernel, [items], [items], memory)
        assert driver.read(queue, memory, 8) == bytes(after), name
        driver.kernel_release(kernel)
        driver.program_release(program)


def test_threads_with_queues_of_their_own(
    driver: DriverUnderTest, make_queue: Make, make_memory: Make, make_kernel: Make
) -> None:
    wrong: list[object] = []

    def work(queue: int, kernel: int, memory: int, digit: int) -> None:
        try:
            value = ctypes.c_int32(digit)
            for _ in range(40):
                driver.fill(queue, memory, bytes(4), 4096)
                for _ in range(5):
                    driver.launch(queue, kernel, [1024], [64], memory, value)
                if read_ints(driver, queue, memory, 1024) != [digit * 121] * 1024:
                    wrong.append(digit)
        except DriverError as error:
            wrong.append(error)

    threads = [
        threading.Thread(
            target=work, args=(make_queue(), make_kernel("append"), make_memory(4096), digit)
        )
        for digit in (1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("devices", [1, 2])
def test_a_thousand_events_across_queues(
    driver: DriverUnderTest,
    make_queue: Make,
    make_event: Make,
    make_memory: Make,
    make_kernel: Make,
    devices: int,
) -> None:
    """A number is handed round four queues; every step depends on the one before."""
    queues = [make_queue(i % devices) for i in range(4)]
    kernels = [make_kernel("append", i % devices) for i in range(4)]
    memories = [make_memory(256, i % devices) for i in range(4)]
    events = [make_event(i % devices) for i in range(4)]
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


def test_timing_of_a_kernel(
    driver: DriverUnderTest, queue: int, make_event: Make, make_memory: Make, make_kernel: Make
) -> None:
    start, between, end = (make_event(timing=True) for _ in range(3))
    memory, spin = make_memory(4), make_kernel("spin")
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


def test_launch_records_its_own_times(
    driver: DriverUnderTest, queue: int, make_event: Make, make_memory: Make, make_kernel: Make
) -> None:
    assert driver.device_properties(0).features & Feature.LAUNCH_EVENTS
    events = [[make_event(timing=True) for _ in range(2)] for _ in range(3)]
    memory, spin = make_memory(4), make_kernel("spin")
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


def test_events_that_a_launch_cannot_record(
    driver: DriverUnderTest, queue: int, make_event: Make, make_memory: Make, make_kernel: Make
) -> None:
    memory, spin = make_memory(4), make_kernel("spin")
    for event in (make_event(), make_event(1, timing=True)):
        with pytest.raises(DriverError) as error:
            driver.launch(queue, spin, [1], [1], memory, ctypes.c_int32(1), start=event)
        assert error.value.status == Status.INVALID_ARGUMENT


@pytest.mark.parametrize("memory", ["shared", "coarse", "handles"])
def test_addresses_that_are_no_memory(tmp_path: Path, memory: str) -> None:
    driver = open_driver(tmp_path, ocl, **OCL, OUTBOARD_OCL_MEMORY=memory)  # torture would see them
    queue, address = driver.queue_create(0), driver.allocate(0, 4096)
    program = driver.program_build(0, source_for(driver, SOURCE))
    kernel = driver.kernel_create(program, "increment")
    wrongs = {0: "increment is the address 0"}
    if memory == "handles":  # pointers are not looked up
        wrongs[address + 4096] = "do not lie in one allocation"
    for wrong, message in wrongs.items():
        with pytest.raises(DriverError, match=message) as error:
            driver.launch(queue, kernel, [64], [64], wrong)
        assert error.value.status == Status.INVALID_ARGUMENT


WITHOUT_LINKER = """
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
    environment = os.environ | OCL | {"PATH": "/nonexistent"}
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_LINKER], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
