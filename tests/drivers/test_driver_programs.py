"""Programs, kernels and launches, on every driver whose devices run code."""

import ctypes
import gc
import itertools
import math

import pytest
from driver_support import DriverUnderTest, fails_with
from program_support import KERNELS, ints, kernel_of, read_ints, source_for

from tests.support import in_threads
from torch_outboard.drivers.client import Local
from torch_outboard.drivers.contract import Status

ANSWER = "__kernel void f(ADDRESS(int, x)) { AT(int, x)[0] = ANSWER; }"
VALUES = """
typedef struct { int bias[3]; long factor; } numbers;
__kernel void f(ADDRESS(int, a), ADDRESS(int, out), const numbers n, int4 four, uchar c) {
  const size_t i = get_global_id(0);
  AT(int, out)[i] = AT(int, a)[i] * (int)n.factor + n.bias[1] + four.z + c;
}
"""
EXCHANGE = """
__kernel void exchange(__local int* buffer, ADDRESS(int, data), __local int* other) {
  const size_t i = get_global_id(0), index = get_local_id(0), last = get_local_size(0) - 1;
  buffer[index] = AT(int, data)[2 * i];
  other[index] = AT(int, data)[2 * i + 1];
  barrier(CLK_LOCAL_MEM_FENCE);
  AT(int, data)[2 * i] = other[last - index];
  AT(int, data)[2 * i + 1] = buffer[last - index];
}
"""


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
        addresses = [memory + 4 * offset for offset in (a, b, out)]
        values = ctypes.c_int32(factor), ctypes.c_int64(bias)
        arguments = addresses[0], addresses[1], values[0], addresses[2], values[1]
        driver.launch(queue, kernel, [16], group, *arguments)
        expected = [a + i + factor * (b + i) + bias % (1 << 32) for i in range(16)]
        assert read_ints(driver, queue, addresses[2], 16) == expected
        # Nothing is written beside that.
        assert read_ints(driver, queue, addresses[2] - 4, 1) == [out - 1]
        assert read_ints(driver, queue, addresses[2] + 64, 1) == [out + 16]


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
    memory = driver.make_memory(4 * 2 * 4 * 6 * 2)
    width, height = group = (4, 2) if largest >= 8 else (1, 1)
    driver.launch(queue, kernel_of(driver, "coordinates"), [4, 6, 2], [*group, 1], memory)
    expected = []
    for z, y, x in itertools.product(range(2), range(6), range(4)):
        expected.append(x + 100 * y + 10000 * z + 1000000 * (y % height))
        groups = x // width + 10 * (y // height) + 100 * (6 // height)
        expected.append(groups + 1000 * width + 10000 * 3)
    assert read_ints(driver, queue, memory, 96) == expected


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


@pytest.mark.shipped_only
def test_values_and_structs(driver: DriverUnderTest, queue: int, largest: int) -> None:
    class Numbers(ctypes.Structure):
        _fields_ = (("bias", ctypes.c_int32 * 3), ("factor", ctypes.c_int64))

    memory = driver.make_memory(8192)
    driver.write(queue, memory, ints(*range(64)))
    numbers, four = Numbers(bias=(0, 7, 0), factor=-3), (ctypes.c_int32 * 4)(0, 0, 100, 0)
    arguments = memory, memory + 4100, numbers, four, ctypes.c_uint8(200)
    driver.launch(queue, kernel_of(driver, "f", source=VALUES), [64], [1], *arguments)
    expected = [307 - 3 * i for i in range(64)]
    assert read_ints(driver, queue, memory + 4100, 64) == expected


def test_local_memory(driver: DriverUnderTest, queue: int, largest: int) -> None:
    """Each group has its own."""
    memory, kernel = driver.make_memory(8192), kernel_of(driver, "exchange", source=EXCHANGE)
    items, group = 1024, math.gcd(largest, 32)
    expected = []
    for item in range(items):
        other = item - item % group + group - 1 - item % group
        expected += [2 * other + 1, 2 * other]
    for _ in range(5):
        driver.write(queue, memory, ints(*range(2 * items)))
        buffers = Local(4 * group), memory, Local(4 * group)
        driver.launch(queue, kernel, [items], [group], *buffers)
        assert read_ints(driver, queue, memory, 2 * items) == expected


def test_threads_with_queues_of_their_own(driver: DriverUnderTest, largest: int) -> None:
    devices = [number % driver.devices for number in range(3)]
    operands = [
        (driver.make_queue(d), driver.make_memory(4096, d), kernel_of(driver, "spin", d))
        for d in devices
    ]
    expected = 0
    for _ in range(200):
        expected = (expected * 1664525 + 1013904223 + 2**31) % 2**32 - 2**31

    def work(number: int) -> None:
        queue, memory, kernel = operands[number]
        for _ in range(15):
            driver.fill(queue, memory, bytes(4), 4096)
            for rounds in (60, 40, 100):
                group = [math.gcd(largest, 64)]
                driver.launch(queue, kernel, [1024], group, memory, ctypes.c_int32(rounds))
            assert set(read_ints(driver, queue, memory, 1024)) == {expected}

    in_threads(work, 3)


def test_captured_launches(driver: DriverUnderTest, queue: int, largest: int) -> None:
    """A graph keeps the kernels of its launches, and what they were launched with."""
    driver.need("graph_begin")
    memory, program = driver.make_memory(256), driver.program_build(0, source_for(driver, KERNELS))
    kernel = driver.kernel_create(program, "append")
    driver.program_release(program)
    driver.fill(queue, memory, bytes(4), 256)
    driver.graph_begin(queue)
    for digit in (1, 2):
        group = [math.gcd(largest, 64)]
        driver.launch(queue, kernel, [64], group, memory, ctypes.c_int32(digit))
    graph = driver.graph_end(queue)
    driver.kernel_release(kernel)
    gc.collect()
    assert read_ints(driver, queue, memory, 64) == [0] * 64
    for _ in range(2):
        driver.graph_launch(queue, graph)
    assert read_ints(driver, queue, memory, 64) == [((1 * 3 + 2) * 3 + 1) * 3 + 2] * 64
    driver.graph_release(graph)


@pytest.mark.shipped_only
def test_wrong_launches(driver: DriverUnderTest, queue: int, largest: int) -> None:
    memory, add = driver.make_memory(4096), kernel_of(driver, "add")
    factor, bias = ctypes.c_int32(1), ctypes.c_int64(1)
    good = memory, memory, factor, memory, bias
    driver.launch(queue, add, [64], [1], *good)
    wrong: list[tuple[list[int], list[int], tuple[object, ...]]] = [
        ([0], [1], good),
        ([64], [0], good),
        ([], [], good),
        ([2 * largest], [2 * largest], good),
        ([64], [1], (*good, factor)),
        ([64], [1], (memory, memory, bias, memory, bias)),
    ]
    if largest > 1:
        wrong.append(([100], [64], good))
    if driver.name != "ocl":  # OpenCL tells no kind of a parameter
        wrong += [
            ([64], [1], good[:-1]),
            ([64], [1], (memory, memory, memory, memory, bias)),
            ([64], [1], (memory, factor, factor, memory, bias)),
            ([64], [1], (0, memory, factor, memory, bias)),
            ([64], [1], (Local(1 << 30), memory, factor, memory, bias)),
        ]
    if driver.name == "riscv":
        wrong.append(([64], [1], (driver.make_memory(64, 1), memory, factor, memory, bias)))
    for global_size, local_size, arguments in wrong:
        with fails_with(Status.INVALID_ARGUMENT):
            driver.launch(queue, add, global_size, local_size, *arguments)
    with fails_with(Status.INVALID_ARGUMENT, "device 1"):
        driver.launch(queue, kernel_of(driver, "increment", 1), [64], [1], memory)
    driver.launch(queue, add, [64], [1], *good)
    driver.queue_synchronize(queue)


def test_options_and_binaries(driver: DriverUnderTest, queue: int) -> None:
    source = source_for(driver, ANSWER)
    memory = driver.make_memory(4)
    for answer in (41, 42):
        program = driver.program_build(0, source, f"-DANSWER={answer}")
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


def test_what_cannot_be_built(driver: DriverUnderTest) -> None:
    source = source_for(driver, ANSWER)
    wrong = [
        (source, "", None),
        ("__kernel void broken() { no_such_variable = 1; }", "", "no_such_variable"),
    ]
    if driver.shipped:
        wrong.append((source, "-DANSWER=1 --no-such-option", None))
    for source, options, words in wrong:
        with fails_with(Status.BUILD_FAILED, words):
            driver.program_build(0, source, options)
    words = "no kernel named nonesuch" if driver.shipped else None
    with fails_with(Status.INVALID_ARGUMENT, words):
        kernel_of(driver, "nonesuch")
