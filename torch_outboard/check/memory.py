"""Memory of devices, and pinned and registered memory of the host."""

from __future__ import annotations

import ctypes
import os
import random
import time

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import NotTestable
from torch_outboard.check.session import Session, expect, expect_bytes, expect_within
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import HostAccess, Status

APART = "Allocations do not overlap, whatever their device."
NO_ROOM = "OB_OUT_OF_MEMORY where the device has no room, more than total_memory included."


@check(
    "allocate",
    says="a power of two; allocations start at multiples; 0: 64",
    advice="Round addresses up to `alignment`, and never return 0.",
)
def sizes(driver: Session) -> None:
    """Sizes from a byte on are allocated, aligned, and can be freed."""
    for device in range(driver.devices):
        alignment = driver.device_properties(device).alignment or 64
        for size in (1, 63, 64, 4096, 4097, 1 << 20, driver.budget):
            address = driver.allocate(device, size)
            case = f"an address for {size} bytes that is a multiple of {alignment} and not 0"
            expect(address != 0 and address % alignment == 0, case, hex(address))
            driver.deallocate(device, address)


@check("allocate", says=APART, advice="Print start and size of each allocation and compare them.")
def allocations_do_not_overlap(driver: Session) -> None:
    """Each of several allocations keeps its own content."""
    queue = driver.make_queue()
    sizes = (1, 100, 4096, 10000, 65536, 3, 1 << 20, 4096)
    memory = [(driver.make_memory(size), size) for size in sizes]
    for i, (address, size) in enumerate(memory):
        driver.fill(queue, address, bytes([i]), size)
    for i, (address, size) in enumerate(memory):
        expect_bytes(driver.read(queue, address, size), bytes([i]) * size, f"allocation {i}")


@check(
    "allocate",
    says=APART,
    advice="Reserve ranges of addresses for each device that no other has.",
    devices=2,
)
def ranges_of_devices_differ(driver: Session) -> None:
    """Large allocations of two devices have different addresses."""
    whole = [driver.make_memory(driver.budget, device) for device in range(2)]
    distance = abs(whole[0] - whole[1])
    expect(distance >= driver.budget, f"addresses {driver.budget} bytes apart or more", distance)


@check("allocate", says=NO_ROOM, advice="Compare sizes before you add to them: sums may overflow.")
def sizes_that_cannot_be(driver: Session) -> None:
    """0 bytes are refused, and more than there is answers OUT_OF_MEMORY."""
    with driver.failing(Status.INVALID_ARGUMENT, "allocate", "0 bytes"):
        driver.allocate(0, 0)
    for size in (driver.device_properties(0).total_memory + 1, 2**63, 2**64 - 1):
        with driver.failing(Status.OUT_OF_MEMORY, "allocate", f"{size} bytes"):
            driver.allocate(0, size)
    if driver.has("host_allocate"):
        with driver.failing(Status.INVALID_ARGUMENT, "host_allocate", "0 bytes"):
            driver.host_allocate(0)
        for size in (1 << 50, 2**64 - 1):
            with driver.failing(Status.OUT_OF_MEMORY, "host_allocate", f"{size} bytes"):
                driver.host_allocate(size)


@check(
    "memory_info",
    says="Free and total bytes.",
    advice="Count what `allocate` gave, and subtract it.",
)
def memory_info(driver: Session) -> None:
    """Free bytes are fewer after an allocation, and as before after it is freed."""
    for device in range(driver.devices):
        total_memory = driver.device_properties(device).total_memory
        free, total = driver.memory_info(device)
        expect(0 < free <= total <= 1 << 60, "0 < free <= total <= 2^60", (free, total))
        near = abs(total - total_memory) <= total_memory // 10
        expect(near, f"a total near total_memory, {total_memory}", total)
        size = min(driver.budget, free // 2)
        address = driver.allocate(device, size)
        less = driver.memory_info(device)[0]
        driver.deallocate(device, address)
        # Other processes may use the device as well.
        expect(less <= free - size // 2, f"about {free - size} free bytes", less)


@check(
    "allocate",
    says="bytes in one `allocate`, <= total_memory; 0: total_memory",
    advice="Report in total_memory and max_allocation what can be allocated.",
    seconds=60,
    direct_only=True,
)
def up_to_total_memory(driver: Session) -> None:
    """All memory that the driver reports can be allocated, and is free again afterwards."""
    properties = driver.device_properties(0)
    free = driver.memory_info(0)[0] if driver.has("memory_info") else properties.total_memory
    piece = min(properties.max_allocation or properties.total_memory, max(free // 8, 1 << 16))
    queue = driver.make_queue()
    memory: list[int] = []
    try:
        while (len(memory) + 1) * piece <= free:
            memory.append(driver.allocate(0, piece))
    except DriverError as error:
        if error.status != Status.OUT_OF_MEMORY:
            raise
    # Few bytes of each, since the memory of an emulated device may be that of this machine.
    for i, address in enumerate(memory):
        driver.fill(queue, address, bytes([i + 1]), 64)
        driver.fill(queue, address + piece - 64, bytes([i + 101]), 64)
    for i, address in enumerate(memory):
        first, last = (driver.read(queue, address + at, 64) for at in (0, piece - 64))
        expect_bytes(first, bytes([i + 1]) * 64, f"the start of piece {i}", says=APART)
        expect_bytes(last, bytes([i + 101]) * 64, f"the end of piece {i}", says=APART)
    reached = len(memory) * piece
    for address in memory:
        driver.deallocate(0, address)
    # Others may use the device, and each piece may need some bytes more.
    expect(
        reached >= free // 2,
        f"allocations of {piece:,} bytes up to {free:,}, which are free",
        f"OUT_OF_MEMORY after {reached:,}",
    )
    driver.deallocate(0, driver.allocate(0, piece))


@check(
    "deallocate",
    says="Its bytes can be allocated again.",
    advice="Look for an allocation that is never given back to the device.",
    seconds=60,
    direct_only=True,
)
def freed_memory_is_free(driver: Session) -> None:
    """Three times the memory of the device can be allocated, one piece after the other."""
    properties = driver.device_properties(0)
    piece = min(properties.max_allocation or properties.total_memory, properties.total_memory // 4)
    for _ in range(12):
        driver.deallocate(0, driver.allocate(0, piece))


@check("allocate", says=APART, advice="Merge neighbours of freed memory with care for their ends.")
def random_use(driver: Session) -> None:
    """A thousand random allocations and frees never give bytes that are in use."""
    choose = random.Random(1)
    live: dict[int, int] = {}
    for _ in range(1000):
        if live and choose.random() < 0.5:
            address = choose.choice(list(live))
            driver.deallocate(0, address)
            del live[address]
            continue
        size = choose.choice([1, 4096, 5000, 1 << 16, 1 << 20])
        if sum(live.values()) + size > driver.budget // 2:
            continue
        address = driver.allocate(0, size)
        taken = [a for a, n in live.items() if a < address + size and address < a + n]
        expect(not taken, f"{size} bytes that are not in use", f"{address:#x} in {taken}")
        live[address] = size
    for address in live:
        driver.deallocate(0, address)


@check(
    "allocate",
    "host_callback",
    says="Memory of a device. Does not wait.",
    advice="Take no lock that running work holds, and wait for no queue.",
)
def allocation_does_not_wait(driver: Session) -> None:
    """Memory is allocated and freed while a queue is blocked."""
    queue, memory = driver.make_queue(), driver.make_memory(1 << 16)
    opened = driver.gate(queue)
    driver.fill(queue, memory, b"a", 1 << 16)

    def allocate() -> None:
        driver.deallocate(0, driver.allocate(0, 1 << 20))

    expect_within(allocate, opened, "allocate")


@check(
    "host_allocate",
    says="Memory of the host from which transfers are asynchronous.",
    advice="Return memory that the host can write, and copy from it like from any other.",
)
def pinned_memory(driver: Session) -> None:
    """Pinned memory is memory, and copies from and to it are right."""
    queue = driver.make_queue()
    address = driver.make_memory(1 << 20)
    for size in (1, 64, 4097, 1 << 20):
        pointer = driver.host_allocate(size)
        expect(pointer, "a pointer", "NULL")
        ctypes.memset(pointer, 0x5A, size)
        driver.fill(queue, address, b"\xee", size)
        driver.copy_host_to_device(queue, address, pointer, size)
        expect_bytes(driver.read(queue, address, size), b"\x5a" * size, "a copy from it")
        driver.fill(queue, address, b"\x7c", size)
        driver.copy_device_to_host(queue, pointer, address, size)
        driver.queue_synchronize(queue)
        expect_bytes(ctypes.string_at(pointer, size), b"\x7c" * size, "a copy to it")
        driver.host_deallocate(pointer)


@check(
    "host_register",
    says="From now on `bytes` of ordinary memory at `pointer` are as good for transfers as memory "
    "of host_allocate.",
    advice="Pin the pages that hold the range, also where it begins within a page.",
)
def registered_memory(driver: Session) -> None:
    """Copies from and to registered memory are right, and it can be registered again."""
    queue = driver.make_queue()
    size = 1 << 16
    address = driver.make_memory(size)
    host = ctypes.create_string_buffer(os.urandom(size), size)
    sent = host.raw
    for _ in range(2):
        driver.host_register(ctypes.addressof(host), size)
        driver.copy_host_to_device(queue, address, host, size)
        driver.queue_synchronize(queue)
        ctypes.memset(host, 0, size)
        driver.copy_device_to_host(queue, host, address, size)
        driver.queue_synchronize(queue)
        expect_bytes(host.raw, sent, "what came back to registered memory")
        driver.host_unregister(ctypes.addressof(host))


@check(
    "device_properties",
    says="An ob_address is a valid host pointer whenever no work on any queue uses it, with "
    "nothing to call.",
    advice="Return OB_HOST_ACCESS_NONE unless host and device see the same bytes at once.",
)
def shared_memory_is_seen_by_the_host(driver: Session) -> None:
    """Where host access is coherent, both sides see what the other wrote."""
    if driver.device_properties(0).host_access != HostAccess.COHERENT:
        raise NotTestable("the host may not touch memory of the device (OB_HOST_ACCESS_NONE)")
    queue, address = driver.make_queue(), driver.make_memory(4096)
    driver.fill(queue, address, b"abcd", 4096)
    driver.queue_synchronize(queue)
    expect_bytes(ctypes.string_at(address, 4096), b"abcd" * 1024, "what the device wrote")
    ctypes.memset(address, ord("z"), 4096)
    expect_bytes(driver.read(queue, address, 4096), b"z" * 4096, "what the host wrote")


@check(
    "deallocate",
    says="Gives back what `allocate` returned, the start of an allocation.",
    advice="Keep memory alive for work that uses it, or free it without waiting elsewhere.",
)
def memory_that_comes_again(driver: Session) -> None:
    """Memory with the address of freed memory holds what is written to it now."""
    queue = driver.make_queue()
    for round_ in range(20):
        size = (4096, 1 << 16, 4096, 1 << 20)[round_ % 4]
        address = driver.allocate(0, size)
        driver.fill(queue, address, bytes([round_ + 1]), size)
        found = driver.read(queue, address, size)
        expect_bytes(found, bytes([round_ + 1]) * size, f"allocation {round_}")
        driver.deallocate(0, address)
        time.sleep(0)
