"""Launches: arguments of every width, sizes, order, local memory."""

from __future__ import annotations

import array
import ctypes
import gc
import itertools
import math

from torch_outboard.check.catalog import check
from torch_outboard.check.session import (
    Session,
    expect_bytes,
    expect_equal,
    expect_within,
    in_threads,
)
from torch_outboard.check.sources import (
    EXCHANGE,
    KERNELS,
    VALUES,
    WIDTHS,
    ints,
    kernel_of,
    read_ints,
    source_for,
)
from torch_outboard.drivers.client import Local

COPIED = "Enqueues a kernel. Arguments are copied. Does not wait."
VALUE = "`value`, `size` > 0 bytes, copied by the call: a number, a vector or a struct"
SIZES = "No dimension has a limit below 2^31: a device with lower ones splits the launch"
IN_ORDER = "An in-order queue: work starts when all earlier work on the same queue is done."


@check("launch", says=COPIED, advice="Set every argument at each launch.", seconds=120)
def own_arguments(driver: Session) -> None:
    """Launches that differ in one argument, in several, in none; with offset addresses."""
    group = [math.gcd(driver.need_kernels(), 16)]
    queue, memory = driver.make_queue(), driver.make_memory(4096)
    driver.write(queue, memory, ints(*range(1024)))
    kernel = kernel_of(driver, "add")
    launches = [(0, 64, 2, 513, 7), (0, 64, 2, 513, 7), (4, 64, 2, 513, 7), (4, 64, -1, 513, 7),
                (4, 64, -1, 641, 7), (4, 64, -1, 641, 1 << 33), (8, 0, 5, 513, 0)]  # fmt: skip
    for a, b, factor, out, bias in launches:
        addresses = [memory + 4 * offset for offset in (a, b, out)]
        values = ctypes.c_int32(factor), ctypes.c_int64(bias)
        arguments = addresses[0], addresses[1], values[0], addresses[2], values[1]
        driver.launch(queue, kernel, [16], group, *arguments)
        wanted = [a + i + factor * (b + i) + bias % (1 << 32) for i in range(16)]
        case = f"a[{a}:] + {factor} * b[{b}:] + {bias}"
        expect_equal(read_ints(driver, queue, addresses[2], 16), wanted, case)
        beside = read_ints(driver, queue, addresses[2] - 4, 1) + read_ints(
            driver, queue, addresses[2] + 64, 1
        )
        expect_equal(beside, [out - 1, out + 16], "the numbers beside the result")


@check("launch", says=VALUE, advice="Pass `size` bytes of `value` on as they are.", seconds=120)
def widths(driver: Session) -> None:
    """Values of each width from 1 to 16 bytes arrive whole, and so does what follows them."""
    driver.need_kernels()
    queue, memory = driver.make_queue(), driver.make_memory(64)
    for width in range(1, 17):
        kernel = kernel_of(driver, f"width{width}", source=WIDTHS)
        value = (ctypes.c_uint8 * width)(*range(0x81, 0x81 + width))
        driver.fill(queue, memory, b"\xee", 64)
        driver.launch(queue, kernel, [1], [1], memory, value, ctypes.c_int32(0x55))
        wanted = bytes(value) + b"\x55" + b"\xee" * 7
        expect_bytes(driver.read(queue, memory, width + 8), wanted, f"a value of {width} bytes")


@check("launch", says=VALUE, advice="Align each value as its type in C asks.", seconds=120)
def values_and_structs(driver: Session) -> None:
    """Numbers, structs with padding and vectors of one launch arrive whole."""
    driver.need_kernels()

    class Mixed(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int32), ("c", ctypes.c_uint8))

    class Numbers(ctypes.Structure):
        _fields_ = (("bias", ctypes.c_int32 * 3), ("factor", ctypes.c_int64))

    queue, memory = driver.make_queue(), driver.make_memory(128)
    three, sixteen = (ctypes.c_uint8 * 3)(1, 2, 253), (ctypes.c_int32 * 4)(5, -6, 1 << 30, -8)
    more = Numbers((ctypes.c_int32 * 3)(9, -1, 77), -(1 << 40) + 3)
    arguments = (
        *(ctypes.c_uint8(200), three, ctypes.c_uint16(65_000), ctypes.c_int32(-70_000)),
        *(Mixed(-123_456, 99), ctypes.c_int64((1 << 62) + 12_345), more, sixteen),
    )
    driver.fill(queue, memory, b"\xee", 128)
    kernel = kernel_of(driver, "values", source=VALUES)
    driver.launch(queue, kernel, [1], [1], memory, *arguments)
    wanted = (
        bytes([200, 1, 2, 253])
        + (65_000).to_bytes(2, "little")
        + (-70_000).to_bytes(4, "little", signed=True)
        + (-123_456).to_bytes(4, "little", signed=True)
        + bytes([99])
        + ((1 << 62) + 12_345).to_bytes(8, "little")
        + ints(9, -1, 77)
        + (-(1 << 40) + 3).to_bytes(8, "little", signed=True)
        + ints(5, -6, 1 << 30, -8)
    )
    found = driver.read(queue, memory, 64)
    expect_bytes(found, wanted + b"\xee" * (64 - len(wanted)), "the bytes of all values")


@check(
    "launch",
    "host_callback",
    says=COPIED,
    advice="Copy values into the command; the caller's memory is gone when it runs.",
    seconds=120,
)
def arguments_are_copied(driver: Session) -> None:
    """Values may change once the call returned, and launches run in order."""
    group = [math.gcd(driver.need_kernels(), 64)]
    queue, memory = driver.make_queue(), driver.make_memory(256)
    kernel = kernel_of(driver, "append")
    driver.fill(queue, memory, bytes(4), 256)
    opened = driver.gate(queue)
    digit = ctypes.c_int32()
    for digit.value in (1, 2, 0, 1):
        driver.launch(queue, kernel, [64], group, memory, digit)
    digit.value = 99
    opened.set()
    wanted = [1 * 27 + 2 * 9 + 0 * 3 + 1] * 64
    expect_equal(read_ints(driver, queue, memory, 64), wanted, "the digits in order")


@check("launch", "host_callback", says=COPIED, advice="Enqueue and return.", seconds=120)
def launches_do_not_wait(driver: Session) -> None:
    """A launch returns while its queue is blocked."""
    driver.need_kernels()
    queue, memory = driver.make_queue(), driver.make_memory(256)
    kernel = kernel_of(driver, "increment")
    driver.fill(queue, memory, bytes(4), 256)
    driver.launch(queue, kernel, [64], [1], memory)  # what drivers do once
    driver.queue_synchronize(queue)
    opened = driver.gate(queue)

    def launch() -> None:
        for _ in range(100):
            driver.launch(queue, kernel, [64], [1], memory)

    expect_within(launch, opened, "launch")
    expect_equal(read_ints(driver, queue, memory, 64), [101] * 64, "the number of launches")


@check(
    "launch",
    says="A location in device memory.",
    advice="Look addresses up at each launch: new memory has addresses of what was freed.",
    seconds=120,
)
def memory_that_was_freed_between(driver: Session) -> None:
    """Launches write to new memory, also where it has the address of freed memory."""
    group = [math.gcd(driver.need_kernels(), 64)]
    queue, kernel = driver.make_queue(), kernel_of(driver, "increment")
    for size in (4096, 4096, 1 << 16, 4096):
        for address in [driver.allocate(0, size), driver.allocate(0, size)]:
            driver.fill(queue, address, bytes(4), size)
            driver.launch(queue, kernel, [64], group, address)
            expect_equal(read_ints(driver, queue, address, 64), [1] * 64, "what was written")
            driver.deallocate(0, address)


@check(
    "launch",
    says="work items in a work group; always given",
    advice="Print the indices of a small launch, and compare them with OpenCL's.",
    seconds=120,
)
def three_dimensions(driver: Session) -> None:
    """Indices, groups and sizes of a launch of three dimensions are OpenCL's."""
    largest = driver.need_kernels()
    queue, memory = driver.make_queue(), driver.make_memory(4 * 2 * 4 * 6 * 2)
    width, height = group = (4, 2) if largest >= 8 else (1, 1)
    driver.launch(queue, kernel_of(driver, "coordinates"), [4, 6, 2], [*group, 1], memory)
    wanted = []
    for z, y, x in itertools.product(range(2), range(6), range(4)):
        wanted.append(x + 100 * y + 10000 * z + 1000000 * (y % height))
        groups = x // width + 10 * (y // height) + 100 * (6 // height)
        wanted.append(groups + 1000 * width + 10000 * 3)
    expect_equal(read_ints(driver, queue, memory, 96), wanted, "indices of work-items")


@check("launch", says=SIZES, advice="Count work-items in 64 bits.", seconds=180, direct_only=True)
def beyond_65536(driver: Session) -> None:
    """Every work-item of launches beyond 2^16 runs once, in each dimension."""
    driver.need_kernels()
    queue, kernel = driver.make_queue(), kernel_of(driver, "count")
    most = 66_003
    memory = driver.make_memory(4 * (most + 1))
    for sizes in ([most], [1, most], [1, 1, most], [257, 256], [41, 39, 41]):
        width, height, depth = (*sizes, 1, 1)[:3]
        count = width * height * depth
        driver.fill(queue, memory, bytes(4), 4 * (count + 1))
        driver.launch(queue, kernel, sizes, [1] * len(sizes), memory)
        once = array.array("i", bytes(4 * (count + 1)))
        places = itertools.product(range(depth), range(height), range(width))
        for i, (z, y, x) in enumerate(places):
            once[i] = 1 + x + 3 * y + 7 * z
        found = driver.read(queue, memory, 4 * (count + 1))
        expect_bytes(found, once.tobytes(), f"work-items of {sizes}")


@check("launch", says=IN_ORDER, advice="Put copies, fills and launches on one stream.", seconds=120)
def ordered_with_copies_and_fills(driver: Session) -> None:
    """Launches, copies and fills of a queue run in order."""
    group = [math.gcd(driver.need_kernels(), 64)]
    queue = driver.make_queue()
    memory, other = driver.make_memory(4 << 10), driver.make_memory(4 << 10)
    kernel = kernel_of(driver, "increment")
    for round_ in range(50):
        driver.fill(queue, memory, ints(round_), 4 << 10)
        driver.launch(queue, kernel, [1024], group, memory)
        driver.copy_device_to_device(queue, other, memory, 4 << 10)
        driver.launch(queue, kernel, [1024], group, other)
        found = read_ints(driver, queue, other, 1024)
        expect_equal(found, [round_ + 2] * 1024, f"round {round_}")


@check(
    "launch",
    says="`size` bytes of local memory",
    advice="Give each work-group its own bytes, aligned for the largest vector.",
    seconds=120,
)
def local_memory(driver: Session) -> None:
    """Each work-group has local memory of its own, for each such argument."""
    group = math.gcd(driver.need_kernels(), 32)
    queue, memory = driver.make_queue(), driver.make_memory(8192)
    kernel, items = kernel_of(driver, "exchange", source=EXCHANGE), 1024
    wanted = []
    for item in range(items):
        other = item - item % group + group - 1 - item % group
        wanted += [2 * other + 1, 2 * other]
    for _ in range(5):
        driver.write(queue, memory, ints(*range(2 * items)))
        buffers = Local(4 * group), memory, Local(4 * group)
        driver.launch(queue, kernel, [items], [group], *buffers)
        found = read_ints(driver, queue, memory, 2 * items)
        expect_equal(found, wanted, f"pairs exchanged in groups of {group}")


@check(
    "launch",
    says="A kernel of a program; used by one thread at a time, kept alive by itself.",
    advice="Keep the state of a launch in its queue or its kernel, not in the driver.",
    seconds=180,
)
def threads_with_queues_of_their_own(driver: Session) -> None:
    """Three threads launch kernels of their own on queues of their own."""
    group = [math.gcd(driver.need_kernels(), 64)]
    devices = [number % driver.devices for number in range(3)]
    operands = [
        (driver.make_queue(d), driver.make_memory(4096, d), kernel_of(driver, "spin", d))
        for d in devices
    ]
    wanted = 0
    for _ in range(200):
        wanted = (wanted * 1664525 + 1013904223 + 2**31) % 2**32 - 2**31

    def work(number: int) -> None:
        queue, memory, kernel = operands[number]
        for _ in range(15):
            driver.fill(queue, memory, bytes(4), 4096)
            for rounds in (60, 40, 100):
                driver.launch(queue, kernel, [1024], group, memory, ctypes.c_int32(rounds))
            found = set(read_ints(driver, queue, memory, 1024))
            expect_equal(found, {wanted}, f"results of thread {number}")

    in_threads(work, 3)


@check(
    "launch",
    "graph_begin",
    says="The graph owns what it needs but not the memory it uses.",
    advice="Let each captured launch hold its kernel and its arguments.",
    seconds=120,
)
def captured_launches(driver: Session) -> None:
    """A graph keeps the kernels of its launches, and what they were launched with."""
    group = [math.gcd(driver.need_kernels(), 64)]
    queue, memory = driver.make_queue(), driver.make_memory(256)
    program = driver.program_build(0, source_for(driver, KERNELS))
    kernel = driver.kernel_create(program, "append")
    driver.program_release(program)
    driver.fill(queue, memory, bytes(4), 256)
    driver.graph_begin(queue)
    for digit in (1, 2):
        driver.launch(queue, kernel, [64], group, memory, ctypes.c_int32(digit))
    graph = driver.graph_end(queue)
    driver.kernel_release(kernel)
    gc.collect()
    expect_equal(read_ints(driver, queue, memory, 64), [0] * 64, "memory after capture")
    for _ in range(2):
        driver.graph_launch(queue, graph)
    wanted = [((1 * 3 + 2) * 3 + 1) * 3 + 2] * 64
    expect_equal(read_ints(driver, queue, memory, 64), wanted, "memory after two replays")
    driver.graph_release(graph)
