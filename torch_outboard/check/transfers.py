"""Copies of all kinds and sizes, and fills."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import time
from pathlib import Path

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import NotTestable
from torch_outboard.check.session import Session, expect, expect_bytes, expect_within
from torch_outboard.drivers.contract import Feature

# Around pages, around the size up to which drivers copy at once, and beyond.
SIZES = [1, 3, 64, 4095, 4096, 16384, 16385, 100_001, 3 << 20]
OFFSETS = [0, 1, 64, 4097]
MIB, GIB = 1 << 20, 1 << 30

COPIES = "Offsets and host pointers have no alignment."
ALL_BYTES = "bytes > 0, without another limit than the allocation."
ASYNCHRONOUS = "Transfers: asynchronous on a queue; do not wait."


def pattern(size: int) -> bytes:
    """Bytes that differ from their neighbours and between pages."""
    once = bytes((i * 31 + (i >> 8)) % 256 for i in range(min(size, 8191)))
    return (once * (size // 8191 + 1))[:size]


@check(
    "copy_host_to_device",
    "copy_device_to_host",
    says=ALL_BYTES,
    advice="If transfers.fills fails, too, begin there. Compare what arrives byte by byte; look "
    "for sizes rounded to words or pages.",
)
def to_device_and_back(driver: Session) -> None:
    """Copies to a device and back keep all bytes and touch no others."""
    queue = driver.make_queue()
    address = driver.make_memory(max(SIZES) + max(OFFSETS) + 16)
    for size, offset in itertools.product(SIZES, OFFSETS):
        data = pattern(size)
        driver.fill(queue, address, b"\xee", size + offset + 16)
        driver.write(queue, address + offset, data)
        case = f"{size} bytes at offset {offset}"
        expect_bytes(driver.read(queue, address + offset, size), data, case)
        around = driver.read(queue, address, size + offset + 16)
        expect_bytes(around, b"\xee" * offset + data + b"\xee" * 16, f"the bytes around {case}")


@check(
    "copy_host_to_device",
    "copy_device_to_host",
    says=COPIES,
    advice="If transfers.fills fails, too, begin there. Copy the unaligned head and tail by bytes.",
)
def every_offset(driver: Session) -> None:
    """Copies begin at each offset from 0 to 64, on the host and on the device."""
    queue, size = driver.make_queue(), 70
    address = driver.make_memory(256)
    for offset in range(65):
        host_offset = (offset * 7) % 65
        data = pattern(size + offset)[-size:]
        host = ctypes.create_string_buffer(b"\xaa" * host_offset + data, host_offset + size)
        pointer = ctypes.addressof(host) + host_offset
        driver.fill(queue, address, b"\xee", 256)
        driver.copy_host_to_device(queue, address + offset, pointer, size)
        result = ctypes.create_string_buffer(b"\xbb" * 256, 256)
        where = ctypes.addressof(result) + offset
        driver.copy_device_to_host(queue, where, address + offset, size)
        driver.queue_synchronize(queue)
        case = f"offset {offset} on the device and {host_offset} on the host"
        rest = 256 - size - offset
        expect_bytes(
            driver.read(queue, address, 256), b"\xee" * offset + data + b"\xee" * rest, case
        )
        expect_bytes(result.raw, b"\xbb" * offset + data + b"\xbb" * rest, f"the host: {case}")


@check(
    "copy_device_to_device",
    says="Both on the queue's device; the ranges do not overlap.",
    advice="If transfers.fills fails, too, begin there. Compare what arrives byte by byte; look "
    "for sizes rounded to words or pages.",
)
def within_a_device(driver: Session) -> None:
    """Copies within a device keep all bytes and touch no others."""
    queue = driver.make_queue()
    source, destination = driver.make_memory(max(SIZES) + 5), driver.make_memory(max(SIZES) + 9)
    for size in SIZES:
        data = pattern(size + 5)
        driver.write(queue, source, data)
        driver.fill(queue, destination, b"\xee", size + 9)
        driver.copy_device_to_device(queue, destination + 7, source + 5, size)
        copied = driver.read(queue, destination, size + 9)
        expect_bytes(copied, b"\xee" * 7 + data[5:] + b"\xee" * 2, f"{size} bytes")
    for offset in range(1, 34):  # of both, in one allocation
        data = pattern(128)
        driver.write(queue, source, data)
        driver.copy_device_to_device(queue, source + 64 + offset, source + offset // 2, 30)
        wanted = bytearray(data)
        wanted[64 + offset : 94 + offset] = data[offset // 2 : offset // 2 + 30]
        expect_bytes(driver.read(queue, source, 128), bytes(wanted), f"offset {offset}")


@check(
    "copy_peer",
    says="Between devices; `queue` belongs to either of them.",
    advice="Take destination and source device from the arguments, not from the queue.",
    devices=2,
)
def between_devices(driver: Session) -> None:
    """Copies between devices keep all bytes, on a queue of either."""
    queues = [driver.make_queue(0), driver.make_queue(1)]
    memory = [driver.make_memory(max(SIZES), device) for device in range(2)]
    for size, queue, source in itertools.product(SIZES, queues, range(2)):
        target, data = 1 - source, pattern(size)
        driver.write(queues[source], memory[source], data)
        driver.fill(queues[target], memory[target], b"\xee", size)
        driver.queue_synchronize(queues[target])
        driver.copy_peer(queue, target, memory[target], source, memory[source], size)
        driver.queue_synchronize(queue)
        found = driver.read(queues[target], memory[target], size)
        expect_bytes(found, data, f"{size} bytes from device {source} to {target}")


ROWS = ((1, 1, 1, 1), (3, 5, 3, 8), (8, 100, 16, 8), (100, 400, 100, 128), (7, 5000, 9, 11))
BETWEEN_ROWS = "Bytes between rows are not written."
ROWS_ADVICE = "Leave the function NULL until rows and pitches are right: the kit copies row by row."


def _rows(driver: Session, kind: str) -> None:
    queue = driver.make_queue()
    from_host, to_host = kind == "host_to_device", kind == "device_to_host"
    memory = driver.make_memory(1 << 17), driver.make_memory(1 << 17)
    for row_bytes, rows, source_pitch, destination_pitch in ROWS:
        data = pattern((rows - 1) * source_pitch + row_bytes)
        size = (rows - 1) * destination_pitch + row_bytes
        wanted = bytearray(b"\xee" * size)
        for row in range(rows):
            start = row * destination_pitch
            wanted[start : start + row_bytes] = data[row * source_pitch :][:row_bytes]
        source: bytes | int = data if from_host else memory[0]
        result = ctypes.create_string_buffer(b"\xee" * size, size)
        destination = result if to_host else memory[1]
        if not from_host:
            driver.write(queue, memory[0], data)
        if not to_host:
            driver.fill(queue, memory[1], b"\xee", size)
        where = destination, destination_pitch, source, source_pitch
        driver.call(f"copy_{kind}_2d", queue, *where, row_bytes, rows)
        driver.queue_synchronize(queue)
        found = result.raw if to_host else driver.read(queue, memory[1], size)
        pitches = f"pitches {source_pitch} and {destination_pitch}"
        expect_bytes(found, bytes(wanted), f"{rows} rows of {row_bytes} bytes, {pitches}")


@check(
    "copy_host_to_device_2d",
    says=BETWEEN_ROWS,
    advice=ROWS_ADVICE,
)
def rows_to_device(driver: Session) -> None:
    """Rows arrive on the device, and nothing between them."""
    _rows(driver, "host_to_device")


@check(
    "copy_device_to_host_2d",
    says=BETWEEN_ROWS,
    advice=ROWS_ADVICE,
)
def rows_to_host(driver: Session) -> None:
    """Rows arrive on the host, and nothing between them."""
    _rows(driver, "device_to_host")


@check(
    "copy_device_to_device_2d",
    says=BETWEEN_ROWS,
    advice=ROWS_ADVICE,
)
def rows_within_a_device(driver: Session) -> None:
    """Rows arrive elsewhere on the device, and nothing between them."""
    _rows(driver, "device_to_device")


@check(
    "fill",
    says="Repeats `pattern` (pattern_bytes: 1, 2, 4, 8 or 16, copied by the call) over `bytes`, "
    "a multiple of it.",
    advice="Write the pattern element by element first, and make it fast afterwards.",
)
def fills(driver: Session) -> None:
    """Patterns of each width are repeated, at any address, and nothing behind them."""
    queue, behind = driver.make_queue(), 9000  # bytes, more than a driver may write at once
    address = driver.make_memory(16 * 300_001 + behind + 3)
    for width, repeats in itertools.product([1, 2, 4, 8, 16], [1, 5, 1000, 5000, 300_001]):
        value, size = os.urandom(width), width * repeats
        driver.fill(queue, address, b"\xee", 3 + size + behind)
        driver.fill(queue, address + 3, value, size)  # aligned to nothing
        found = driver.read(queue, address, 3 + size + behind)
        wanted = b"\xee" * 3 + value * repeats + b"\xee" * behind
        expect_bytes(found, wanted, f"{repeats} times {width} bytes at offset 3")


@check(
    "fill",
    "host_callback",
    says="Repeats `pattern` (pattern_bytes: 1, 2, 4, 8 or 16, copied by the call) over `bytes`",
    advice="Copy the pattern into the command.",
)
def pattern_is_copied(driver: Session) -> None:
    """The pattern of a fill may change once the call has returned."""
    queue, address = driver.make_queue(), driver.make_memory(8)
    value = ctypes.create_string_buffer(b"ab", 2)
    opened = driver.gate(queue)
    driver.call("fill", queue, address, value, 2, 8)
    value.raw = b"xy"
    opened.set()
    expect_bytes(driver.read(queue, address, 8), b"abababab", "the earlier pattern")


@check(
    "copy_host_to_device",
    "host_callback",
    says=ASYNCHRONOUS,
    advice="Enqueue the transfer and return; where the interface cannot, use a thread per queue.",
)
def transfers_do_not_wait(driver: Session) -> None:
    """Copies and fills return while their queue is blocked."""
    queue = driver.make_queue()
    memory = driver.make_memory(1 << 20)
    opened = driver.gate(queue)
    sent, result = bytes(1 << 16), ctypes.create_string_buffer(1 << 16)

    def work() -> None:
        driver.copy_host_to_device(queue, memory, sent, len(sent))
        driver.fill(queue, memory, b"ab", 1 << 16)
        driver.copy_device_to_device(queue, memory + (1 << 18), memory, 1 << 16)
        driver.copy_device_to_host(queue, result, memory + (1 << 18), 1 << 16)

    expect_within(work, opened, "copy_host_to_device")
    driver.queue_synchronize(queue)
    expect_bytes(result.raw, b"ab" * (1 << 15), "what the last copy brought")


@check(
    "copy_host_to_device",
    "copy_device_to_host",
    says=ALL_BYTES,
    advice="Look for a staging buffer whose last part is not copied.",
    direct_only=True,
)
def of_64_mebibytes(driver: Session) -> None:
    """Copies beyond 64 MiB keep their end, in each direction."""
    size = 64 * MIB + 4099
    _expect_room(driver, 2 * size, 4 * size)
    queue = driver.make_queue()
    memory = [driver.make_memory(size) for _ in range(2)]
    data = pattern(size)
    for address in memory:
        driver.fill(queue, address, b"\xee", size)
    driver.write(queue, memory[0], data)
    expect_bytes(driver.read(queue, memory[0], size), data, f"{size:,} bytes there and back")
    driver.copy_device_to_device(queue, memory[1], memory[0], size)
    expect_bytes(driver.read(queue, memory[1], size), data, f"{size:,} bytes within the device")
    driver.fill(queue, memory[1], b"abcd", size // 4 * 4)
    found = driver.read(queue, memory[1], size)
    expect_bytes(found[:-3], b"abcd" * (size // 4), f"a fill of {size:,} bytes", function="fill")


def _expect_room(driver: Session, of_device: int, of_host: int) -> None:
    """Ends the check where device or host have less memory than it takes."""
    properties = driver.device_properties(0)
    most = properties.max_allocation or properties.total_memory
    free = driver.memory_info(0)[0] if driver.has("memory_info") else properties.total_memory
    if min(free, 2 * most) < of_device:
        there = min(free, 2 * most)
        raise NotTestable(f"{of_device:,} bytes of device memory are needed; {there:,} are there")
    found = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
    if (there := int(found) * 1024) < of_host:
        raise NotTestable(f"{of_host:,} bytes of host memory are needed; {there:,} are available")


@check(
    "copy_host_to_device",
    "copy_device_to_host",
    says=ALL_BYTES,
    advice="Count bytes in 64 bits, also on the way through the vendor's interface.",
    seconds=120,
    direct_only=True,
)
def of_2_gibibytes(driver: Session) -> None:
    """Copies and fills beyond 2 GiB keep every part, where memory allows."""
    size = 2 * GIB + 4099
    # The memory of an emulated device is that of the host, too.
    _expect_room(driver, size, 3 * size)
    queue, address = driver.make_queue(), driver.make_memory(size)
    windows = [*range(0, size - 64, 256 * MIB + 8), 2 * GIB - 32, size - 64]
    with mmap.mmap(-1, size) as host:  # the system gives memory for what is written
        first = ctypes.c_char.from_buffer(host)
        pointer = ctypes.addressof(first)
        del first
        for i, start in enumerate(windows):
            host[start : start + 64] = bytes([i + 1]) * 64
        driver.copy_host_to_device(queue, address, pointer, size)
        driver.queue_synchronize(queue)
        for i, start in enumerate(windows):
            found = driver.read(queue, address + start, 64)
            expect_bytes(found, bytes([i + 1]) * 64, f"byte {start:,} of {size:,} on the device")
        driver.fill(queue, address, b"fill", size // 4 * 4)
        for start in windows[:-1]:
            found = driver.read(queue, address + start // 4 * 4, 64)
            expect_bytes(found, b"fill" * 16, f"byte {start:,} of a fill", function="fill")
        for i, start in enumerate(windows):
            driver.fill(queue, address + start, bytes([i + 101]), 64)
        driver.copy_device_to_host(queue, pointer, address, size)
        driver.queue_synchronize(queue)
        for i, start in enumerate(windows):
            found, wanted = host[start : start + 64], bytes([i + 101]) * 64
            case = f"byte {start:,} of {size:,} on the host"
            expect_bytes(found, wanted, case, function="copy_device_to_host")


@check(
    "fill",
    says="Any memory of the host may be passed as an ob_address",
    advice="Leave OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY unset.",
)
def host_memory_as_device_memory(driver: Session) -> None:
    """Where the driver says so, memory of the host is memory of the device."""
    if not driver.device_properties(0).features & Feature.HOST_MEMORY_IS_DEVICE_MEMORY:
        raise NotTestable("the device says that memory of the host is not its own")
    queue, address = driver.make_queue(), driver.make_memory(64)
    host = ctypes.create_string_buffer(64)
    driver.fill(queue, ctypes.addressof(host), b"ab", 64)
    driver.copy_device_to_device(queue, address, ctypes.addressof(host), 64)
    expect_bytes(driver.read(queue, address, 64), b"ab" * 32, "a copy of filled host memory")


@check(
    "copy_host_to_device",
    says="Host memory stays valid and unchanged by the host until the queue has passed the copy.",
    advice="Wait in queue_synchronize for the copy itself, not for its submission.",
)
def host_memory_after_synchronize(driver: Session) -> None:
    """Once the queue is synchronized, the source of a copy may change."""
    queue, size = driver.make_queue(), 4 * MIB
    address = driver.make_memory(size)
    host = ctypes.create_string_buffer(size)
    for round_ in range(5):
        ctypes.memset(host, round_ + 1, size)
        driver.copy_host_to_device(queue, address, host, size)
        driver.queue_synchronize(queue)
        ctypes.memset(host, 0xFF, size)
        time.sleep(0.002)
        found = driver.read(queue, address, size)
        expect_bytes(found, bytes([round_ + 1]) * size, f"copy {round_}")
    expect(driver.queue_query(queue), "an idle queue", "work on it", function="queue_query")
