"""Programs, kernels and launches, on every driver whose devices run code."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Iterator

import pytest
from driver_support import DriverUnderTest
from program_support import ints, kernel_maker, read_ints, source_for

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

Make = Callable[..., int]

SOURCE = """
__kernel void add(ADDRESS(int, a), ADDRESS(int, b), int factor, ADDRESS(int, out), long bias) {
  size_t i = get_global_id(0);
  AT(int, out)[i] = AT(int, a)[i] + factor * AT(int, b)[i] + (int)bias;
}

__kernel void coordinates(ADDRESS(int, out)) {
  size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  size_t i = (z * get_global_size(1) + y) * get_global_size(0) + x;
  AT(int, out)[i] = (int)(x + 100 * y + 10000 * z + 1000000 * get_local_id(1));
}

__kernel void increment(ADDRESS(int, data)) { AT(int, data)[get_global_id(0)] += 1; }

__kernel void append(ADDRESS(int, data), int digit) {
  AT(int, data)[get_global_id(0)] = AT(int, data)[get_global_id(0)] * 3 + digit;
}
"""
ANSWER = "__kernel void f(ADDRESS(int, x)) { AT(int, x)[0] = ANSWER; }"


@pytest.fixture(autouse=True)
def largest(driver: DriverUnderTest) -> int:
    """The most work items in a group."""
    driver.need("program_build", "program_release", "kernel_create", "kernel_release", "launch")
    count: int = driver.device_properties(0).max_work_group_size
    if count == 0:
        driver.skipped = True
        pytest.skip("the device runs no code here")
    return count


@pytest.fixture(scope="session")
def built(configured: DriverUnderTest) -> dict[int, bytes]:
    """SOURCE compiled once for each device, where the driver gives binaries."""
    return {}


@pytest.fixture
def make_kernel(
    driver: DriverUnderTest, largest: int, built: dict[int, bytes]
) -> Iterator[Callable[..., int]]:
    """Creates kernels (name, device) of SOURCE that are released after the test."""

    def make_program(device: int) -> int:
        driver.need_device(device)
        if device in built:
            return driver.program_load(device, built[device])
        program = driver.program_build(device, source_for(driver, SOURCE))
        if driver.has("program_load"):
            built[device] = driver.program_binary(program)
        return program

    with kernel_maker(driver, make_program) as make:
        yield make


def test_launch_with_offset_addresses_and_values(
    driver: DriverUnderTest, queue: int, make_memory: Make, make_kernel: Make, largest: int
) -> None:
    memory = make_memory(4096)
    a, b, out = memory + 128, memory + 1028, memory + 2052
    driver.fill(queue, memory, b"\xee", 4096)
    driver.write(queue, a, ints(*range(64)))
    driver.write(queue, b, ints(*range(1000, 1064)))
    values = ctypes.c_int32(-3), ctypes.c_int64(7)
    group = math.gcd(largest, 16)
    driver.launch(queue, make_kernel("add"), [64], [group], a, b, values[0], out, values[1])
    assert read_ints(driver, queue, out, 64) == [i - 3 * (1000 + i) + 7 for i in range(64)]
    assert driver.read(queue, out - 4, 4) == driver.read(queue, out + 256, 4) == b"\xee" * 4


def test_arguments_are_copied_and_work_is_in_order(
    driver: DriverUnderTest,
    queue: int,
    make_memory: Make,
    make_kernel: Make,
    largest: int,
    gate: Callable[[int], threading.Event],
) -> None:
    memory = make_memory(256)
    kernel = make_kernel("append")
    driver.fill(queue, memory, bytes(4), 256)
    opened = gate(queue)
    digit = ctypes.c_int32()
    for digit.value in (1, 2, 0, 1):
        driver.launch(queue, kernel, [64], [math.gcd(largest, 64)], memory, digit)
    digit.value = 99
    opened.set()
    assert read_ints(driver, queue, memory, 64) == [1 * 27 + 2 * 9 + 0 * 3 + 1] * 64


def test_each_launch_has_its_own_arguments(
    driver: DriverUnderTest, queue: int, make_memory: Make, make_kernel: Make, largest: int
) -> None:
    """Launches of one kernel that differ in one argument, in several, and in none."""
    memory = make_memory(4096)
    driver.write(queue, memory, ints(*range(1024)))
    kernel = make_kernel("add")
    launches = [(0, 64, 2, 512, 7), (0, 64, 2, 512, 7), (4, 64, 2, 512, 7), (4, 64, -1, 512, 7),
                (4, 64, -1, 640, 7), (4, 64, -1, 640, 1 << 33), (8, 0, 5, 512, 0)]  # fmt: skip
    for a, b, factor, out, bias in launches:
        places = [memory + 4 * place for place in (a, b, out)]
        values = ctypes.c_int32(factor), ctypes.c_int64(bias)
        group = [math.gcd(largest, 16)]
        driver.launch(
            queue, kernel, [16], group, places[0], places[1], values[0], places[2], values[1]
        )
        expected = [a + i + factor * (b + i) + bias % (1 << 32) for i in range(16)]
        assert read_ints(driver, queue, places[2], 16) == expected


def test_memory_that_was_released_between_launches(
    driver: DriverUnderTest, queue: int, make_kernel: Make, largest: int
) -> None:
    """New memory often has the address and the handle of what was released before."""
    kernel = make_kernel("increment")
    for size in (4096, 4096, 1 << 16, 4096):
        for device_memory in [driver.allocate(0, size), driver.allocate(0, size)]:
            driver.fill(queue, device_memory, bytes(4), size)
            driver.launch(queue, kernel, [64], [math.gcd(largest, 64)], device_memory)
            assert read_ints(driver, queue, device_memory, 64) == [1] * 64
            driver.deallocate(0, device_memory)


def test_three_dimensions(
    driver: DriverUnderTest, queue: int, make_memory: Make, make_kernel: Make, largest: int
) -> None:
    memory = make_memory(4 * 4 * 6 * 2)
    group = [4, 2, 1] if largest >= 8 else [1, 1, 1]
    driver.launch(queue, make_kernel("coordinates"), [4, 6, 2], group, memory)
    expected = [
        x + 100 * y + 10000 * z + 1000000 * (y % group[1])
        for z in range(2)
        for y in range(6)
        for x in range(4)
    ]
    assert read_ints(driver, queue, memory, 48) == expected


def test_ordered_with_copies_and_fills(
    driver: DriverUnderTest, queue: int, make_memory: Make, make_kernel: Make, largest: int
) -> None:
    memory, other = make_memory(4 << 10), make_memory(4 << 10)
    kernel = make_kernel("increment")
    group = math.gcd(largest, 64)
    for round_ in range(50):
        driver.fill(queue, memory, ints(round_), 4 << 10)
        driver.launch(queue, kernel, [1024], [group], memory)
        driver.copy_device_to_device(queue, other, memory, 4 << 10)
        driver.launch(queue, kernel, [1024], [group], other)
        assert read_ints(driver, queue, other, 1024) == [round_ + 2] * 1024


def test_two_devices(
    driver: DriverUnderTest, make_queue: Make, make_memory: Make, make_kernel: Make
) -> None:
    queues = [make_queue(0), make_queue(1)]
    memories = [make_memory(256, device) for device in range(2)]
    for device, (queue, memory) in enumerate(zip(queues, memories, strict=True)):
        driver.fill(queue, memory, ints(device), 256)
        driver.launch(queue, make_kernel("increment", device), [64], [1], memory)
        assert read_ints(driver, queue, memory, 64) == [device + 1] * 64


def test_options(driver: DriverUnderTest, queue: int, make_memory: Make) -> None:
    text = source_for(driver, ANSWER)
    memory = make_memory(4)
    for answer in (41, 42):
        program = driver.program_build(0, text, f"-DANSWER={answer}")
        kernel = driver.kernel_create(program, "f")
        driver.program_release(program)  # the kernel goes on living
        driver.launch(queue, kernel, [1], [1], memory)
        assert read_ints(driver, queue, memory, 1) == [answer]
        driver.kernel_release(kernel)
    with pytest.raises(DriverError) as error:
        driver.program_build(0, text)
    assert error.value.status == Status.BUILD_FAILED


def test_build_log(driver: DriverUnderTest) -> None:
    with pytest.raises(DriverError, match="no_such_variable") as error:
        driver.program_build(0, "__kernel void broken() { no_such_variable = 1; }")
    assert error.value.status == Status.BUILD_FAILED


def test_no_such_kernel(driver: DriverUnderTest, make_kernel: Make) -> None:
    words = "no kernel named nonesuch" if driver.shipped else None
    with pytest.raises(DriverError, match=words) as error:
        make_kernel("nonesuch")
    assert error.value.status == Status.INVALID_ARGUMENT


def test_a_binary_is_the_program(driver: DriverUnderTest, queue: int, make_memory: Make) -> None:
    driver.need("program_binary", "program_load")
    program = driver.program_build(0, source_for(driver, ANSWER), "-DANSWER=43")
    binary = driver.program_binary(program)
    driver.program_release(program)
    loaded = driver.program_load(0, binary)
    kernel = driver.kernel_create(loaded, "f")
    driver.program_release(loaded)
    memory = make_memory(4)
    driver.launch(queue, kernel, [1], [1], memory)
    assert read_ints(driver, queue, memory, 1) == [43]
    driver.kernel_release(kernel)
