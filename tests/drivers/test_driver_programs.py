"""Programs, kernels and launches, on every driver whose devices run code."""

from __future__ import annotations

import ctypes
import math

import pytest
from driver_support import DriverUnderTest, fails_with
from program_support import ints, kernel_of, read_ints, source_for

from torch_outboard.drivers.contract import Status

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


def test_each_launch_has_its_own_arguments(
    driver: DriverUnderTest, queue: int, largest: int
) -> None:
    """Offset addresses and values; launches that differ in one argument, in several, in none."""
    memory = driver.make_memory(4096)
    driver.write(queue, memory, ints(*range(1024)))
    kernel, group = kernel_of(driver, "add"), [math.gcd(largest, 16)]
    launches = [(0, 64, 2, 513, 7), (0, 64, 2, 513, 7), (4, 64, 2, 513, 7), (4, 64, -1, 513, 7),
                (4, 64, -1, 641, 7), (4, 64, -1, 641, 1 << 33), (8, 0, 5, 513, 0)]  # fmt: skip
    for a, b, factor, out, bias in launches:
        places = [memory + 4 * place for place in (a, b, out)]
        values = ctypes.c_int32(factor), ctypes.c_int64(bias)
        arguments = places[0], places[1], values[0], places[2], values[1]
        driver.launch(queue, kernel, [16], group, *arguments)
        expected = [a + i + factor * (b + i) + bias % (1 << 32) for i in range(16)]
        assert read_ints(driver, queue, places[2], 16) == expected
        # Nothing is written beside that.
        assert read_ints(driver, queue, places[2] - 4, 1) == [out - 1]
        assert read_ints(driver, queue, places[2] + 64, 1) == [out + 16]


def test_arguments_are_copied_and_work_is_in_order(
    driver: DriverUnderTest, queue: int, largest: int
) -> None:
    memory = driver.make_memory(256)
    kernel = kernel_of(driver, "append")
    driver.fill(queue, memory, bytes(4), 256)
    opened = driver.gate(queue)
    digit = ctypes.c_int32()
    for digit.value in (1, 2, 0, 1):
        driver.launch(queue, kernel, [64], [math.gcd(largest, 64)], memory, digit)
    digit.value = 99
    opened.set()
    assert read_ints(driver, queue, memory, 64) == [1 * 27 + 2 * 9 + 0 * 3 + 1] * 64


def test_memory_that_was_released_between_launches(
    driver: DriverUnderTest, queue: int, largest: int
) -> None:
    """New memory often has the address and the handle of what was released before."""
    kernel = kernel_of(driver, "increment")
    for size in (4096, 4096, 1 << 16, 4096):
        for device_memory in [driver.allocate(0, size), driver.allocate(0, size)]:
            driver.fill(queue, device_memory, bytes(4), size)
            driver.launch(queue, kernel, [64], [math.gcd(largest, 64)], device_memory)
            assert read_ints(driver, queue, device_memory, 64) == [1] * 64
            driver.deallocate(0, device_memory)


def test_three_dimensions(driver: DriverUnderTest, queue: int, largest: int) -> None:
    memory = driver.make_memory(4 * 4 * 6 * 2)
    group = [4, 2, 1] if largest >= 8 else [1, 1, 1]
    driver.launch(queue, kernel_of(driver, "coordinates"), [4, 6, 2], group, memory)
    expected = [
        x + 100 * y + 10000 * z + 1000000 * (y % group[1])
        for z in range(2)
        for y in range(6)
        for x in range(4)
    ]
    assert read_ints(driver, queue, memory, 48) == expected


def test_ordered_with_copies_and_fills(driver: DriverUnderTest, queue: int, largest: int) -> None:
    memory, other = driver.make_memory(4 << 10), driver.make_memory(4 << 10)
    kernel = kernel_of(driver, "increment")
    group = math.gcd(largest, 64)
    for round_ in range(50):
        driver.fill(queue, memory, ints(round_), 4 << 10)
        driver.launch(queue, kernel, [1024], [group], memory)
        driver.copy_device_to_device(queue, other, memory, 4 << 10)
        driver.launch(queue, kernel, [1024], [group], other)
        assert read_ints(driver, queue, other, 1024) == [round_ + 2] * 1024


def test_two_devices(driver: DriverUnderTest) -> None:
    for device in range(2):
        queue, memory = driver.make_queue(device), driver.make_memory(256, device)
        driver.fill(queue, memory, ints(device), 256)
        driver.launch(queue, kernel_of(driver, "increment", device), [64], [1], memory)
        assert read_ints(driver, queue, memory, 64) == [device + 1] * 64


def test_options_and_binaries(driver: DriverUnderTest, queue: int) -> None:
    text = source_for(driver, ANSWER)
    memory = driver.make_memory(4)
    for answer in (41, 42):
        program = driver.program_build(0, text, f"-DANSWER={answer}")
        programs = [program]
        if driver.has("program_load"):
            programs.append(driver.program_load(0, driver.program_binary(program)))
        for each in programs:
            kernel = driver.kernel_create(each, "f")
            driver.program_release(each)  # the kernel goes on living
            driver.fill(queue, memory, bytes(4), 4)
            driver.launch(queue, kernel, [1], [1], memory)
            assert read_ints(driver, queue, memory, 1) == [answer]
            driver.kernel_release(kernel)


def test_programs_that_cannot_be_built(driver: DriverUnderTest) -> None:
    text = source_for(driver, ANSWER)
    for source, options, words in (
        (text, "", None),
        (text, "-DANSWER=1 --no-such-option", None),
        ("__kernel void broken() { no_such_variable = 1; }", "", "no_such_variable"),
    ):
        if "--" in options and not driver.shipped:
            continue
        with fails_with(Status.BUILD_FAILED, words):
            driver.program_build(0, source, options)


def test_no_such_kernel(driver: DriverUnderTest) -> None:
    words = "no kernel named nonesuch" if driver.shipped else None
    with fails_with(Status.INVALID_ARGUMENT, words):
        kernel_of(driver, "nonesuch")
