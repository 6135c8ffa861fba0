"""Copies of all kinds, fills, and what they refuse."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from driver_support import DriverUnderTest, assert_bytes, open_driver

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Feature, Status

# Around pages, around the size up to which the host driver copies at once, and beyond.
SIZES = [1, 3, 64, 4095, 4096, 16384, 16385, 100_001, 3 << 20]
OFFSETS = [0, 1, 64, 4097]


def pattern(size: int, seed: int = 0) -> bytes:
    return bytes((i * 31 + (i >> 8) + seed) % 256 for i in range(min(size, 8191))) * (
        size // 8191 + 1
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offset", OFFSETS)
def test_to_device_and_back(
    driver: DriverUnderTest, queue: int, make_memory: Callable[..., int], size: int, offset: int
) -> None:
    total = size + offset + 16
    address = make_memory(total)
    data = pattern(size)[:size]
    driver.fill(queue, address, b"\xee", total)
    driver.write(queue, address + offset, data)
    assert_bytes(driver.read(queue, address + offset, size), data)
    around = driver.read(queue, address, total)
    assert around == b"\xee" * offset + data + b"\xee" * 16


@pytest.mark.parametrize("size", SIZES)
def test_within_a_device(
    driver: DriverUnderTest, queue: int, make_memory: Callable[..., int], size: int
) -> None:
    source, destination = make_memory(size + 5), make_memory(size + 9)
    data = pattern(size + 5)[: size + 5]
    driver.write(queue, source, data)
    driver.fill(queue, destination, b"\xee", size + 9)
    driver.copy_device_to_device(queue, destination + 7, source + 5, size)
    assert_bytes(driver.read(queue, destination, size + 9), b"\xee" * 7 + data[5:] + b"\xee" * 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("queue_device", [0, 1])
def test_between_devices(
    driver: DriverUnderTest,
    make_queue: Callable[..., int],
    make_memory: Callable[..., int],
    size: int,
    queue_device: int,
) -> None:
    driver.need("copy_peer")
    queues = [make_queue(0), make_queue(1)]
    there, here = make_memory(size, device=1), make_memory(size, device=0)
    data = pattern(size)[:size]
    driver.write(queues[0], here, data)
    driver.copy_peer(queues[queue_device], 1, there, 0, here, size)
    driver.queue_synchronize(queues[queue_device])
    assert_bytes(driver.read(queues[1], there, size), data)


@pytest.mark.parametrize(
    ("row_bytes", "rows", "source_pitch", "destination_pitch"),
    [(1, 1, 1, 1), (3, 5, 3, 8), (8, 100, 16, 8), (100, 400, 100, 128), (7, 5000, 9, 11)],
)
@pytest.mark.parametrize("kind", ["host_to_device", "device_to_host", "device_to_device"])
def test_rows(
    driver: DriverUnderTest,
    queue: int,
    make_memory: Callable[..., int],
    kind: str,
    row_bytes: int,
    rows: int,
    source_pitch: int,
    destination_pitch: int,
) -> None:
    source_size = (rows - 1) * source_pitch + row_bytes
    destination_size = (rows - 1) * destination_pitch + row_bytes
    data = pattern(source_size)[:source_size]
    expected = bytearray(b"\xee" * destination_size)
    for row in range(rows):
        start = row * destination_pitch
        expected[start : start + row_bytes] = data[row * source_pitch :][:row_bytes]

    from_host, to_host = kind == "host_to_device", kind == "device_to_host"
    source: bytes | int = data if from_host else make_memory(source_size)
    result = ctypes.create_string_buffer(b"\xee" * destination_size, destination_size)
    destination = result if to_host else make_memory(destination_size)
    if not from_host:
        driver.write(queue, source, data)
    if not to_host:
        driver.fill(queue, destination, b"\xee", destination_size)
    driver.call(
        f"copy_{kind}_2d",
        queue,
        destination,
        destination_pitch,
        source,
        source_pitch,
        row_bytes,
        rows,
    )
    driver.queue_synchronize(queue)
    copied = result.raw if to_host else driver.read(queue, destination, destination_size)
    assert_bytes(copied, bytes(expected))


@pytest.mark.parametrize("repeats", [1, 5, 1000, 5000, 300_001])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_fill(
    driver: DriverUnderTest, queue: int, make_memory: Callable[..., int], width: int, repeats: int
) -> None:
    value = os.urandom(width)
    address = make_memory(width * repeats + 8)
    driver.fill(queue, address, b"\xee", 3)
    driver.fill(queue, address + 3, value, width * repeats)  # aligned to nothing
    driver.fill(queue, address + 3 + width * repeats, b"\xee", 5)
    written = driver.read(queue, address, width * repeats + 8)
    assert written == b"\xee" * 3 + value * repeats + b"\xee" * 5


def test_pattern_is_copied_by_the_call(
    driver: DriverUnderTest,
    queue: int,
    make_memory: Callable[..., int],
    gate: Callable[[int], object],
) -> None:
    address = make_memory(8)
    value = ctypes.create_string_buffer(b"ab", 2)
    opened = gate(queue)
    driver.call("fill", queue, address, value, 2, 8)
    value.raw = b"xy"
    opened.set()
    assert driver.read(queue, address, 8) == b"abababab"


def adopts_host_memory(driver: DriverUnderTest) -> bool:
    return bool(driver.device_properties(0).features & Feature.HOST_MEMORY_IS_DEVICE_MEMORY)


def refused(driver: DriverUnderTest, name: str, *arguments: object) -> None:
    assert driver.status(name, *arguments) == Status.INVALID_ARGUMENT
    message = driver.last_error()
    assert message.endswith(".") if driver.shipped else message, message


def test_ranges_outside_an_allocation(
    driver: DriverUnderTest, make_queue: Callable[..., int], make_memory: Callable[..., int]
) -> None:
    queue = make_queue(0)
    host = ctypes.create_string_buffer(8192)
    address = make_memory(4096)
    driver.write(queue, address, b"q" * 4096)
    freed = driver.allocate(0, 4096)
    driver.deallocate(0, freed)
    wrongs = [address + 1, 0]
    if driver.name == "host" or not adopts_host_memory(driver):
        wrongs += [address + 4096, freed]  # which could otherwise be memory of the host
    for wrong in wrongs:
        refused(driver, "copy_host_to_device", queue, wrong, host, 4096)
        refused(driver, "copy_device_to_host", queue, host, wrong, 4096)
        refused(driver, "copy_device_to_device", queue, wrong, address, 4096)
        refused(driver, "copy_device_to_device", queue, address, wrong, 4096)
        refused(driver, "fill", queue, wrong, b"a", 1, 4096)
    refused(driver, "copy_host_to_device", queue, address, host, 2**64 - 1)
    if driver.devices > 1:
        refused(driver, "copy_host_to_device", make_queue(1), address, host, 16)
    if driver.has("copy_peer"):
        refused(driver, "copy_peer", queue, 1, address, 0, address, 16)
        refused(driver, "copy_peer", queue, 0, address, 7, address, 16)
    if driver.has("copy_host_to_device_2d"):
        refused(driver, "copy_host_to_device_2d", queue, address, 64, host, 64, 64, 65)
        refused(driver, "copy_host_to_device_2d", queue, address, 2**63, host, 64, 64, 3)
    assert_bytes(driver.read(queue, address, 4096), b"q" * 4096)


def test_queue_of_a_third_device_cannot_copy_between_peers(
    driver: DriverUnderTest, make_queue: Callable[..., int], make_memory: Callable[..., int]
) -> None:
    driver.need("copy_peer")
    queue = make_queue(1)
    address = make_memory(64)
    refused(driver, "copy_peer", queue, 0, address, 0, address + 32, 16)


def test_nothing_to_copy_and_bad_patterns(
    driver: DriverUnderTest, queue: int, make_memory: Callable[..., int]
) -> None:
    host = ctypes.create_string_buffer(64)
    address = make_memory(64)
    refused(driver, "copy_host_to_device", queue, address, host, 0)
    if driver.shipped:  # the kit asks for none of these
        refused(driver, "copy_host_to_device", queue, address, None, 16)
        refused(driver, "copy_device_to_host", queue, None, address, 16)
    if driver.has("copy_host_to_device_2d"):
        refused(driver, "copy_host_to_device_2d", queue, address, 8, host, 8, 8, 0)
        refused(driver, "copy_host_to_device_2d", queue, address, 4, host, 8, 8, 2)
    refused(driver, "fill", queue, address, b"abc", 3, 63)
    refused(driver, "fill", queue, address, b"a" * 32, 32, 64)
    refused(driver, "fill", queue, address, b"", 0, 64)
    refused(driver, "fill", queue, address, b"ab", 2, 63)
    refused(driver, "fill", queue, address, b"ab", 2, 0)


def test_host_memory_as_device_memory(
    driver: DriverUnderTest, queue: int, make_memory: Callable[..., int]
) -> None:
    host = ctypes.create_string_buffer(64)
    address = make_memory(64)
    if not adopts_host_memory(driver):
        refused(driver, "fill", queue, ctypes.addressof(host), b"ab", 2, 64)
        if driver.shipped:  # an address is no pointer of the host, which no driver need find out
            refused(driver, "copy_host_to_device", queue, address, address, 64)
        return
    driver.fill(queue, ctypes.addressof(host), b"ab", 64)
    driver.copy_device_to_device(queue, address, ctypes.addressof(host), 64)
    assert driver.read(queue, address, 64) == b"ab" * 32


def test_shared_memory_is_seen_by_the_host(tmp_path: Path) -> None:
    driver = open_driver(tmp_path, OUTBOARD_HOST_ACCESS="shared")
    queue, address = driver.queue_create(0), driver.allocate(0, 4096)
    driver.fill(queue, address, b"abcd", 4096)
    driver.queue_synchronize(queue)
    assert ctypes.string_at(address, 4096) == b"abcd" * 1024
    ctypes.memset(address, ord("z"), 4096)
    assert_bytes(driver.read(queue, address, 4096), b"z" * 4096)


@pytest.mark.shipped_only
def test_failures_keep_a_message_per_thread(driver: DriverUnderTest) -> None:
    with pytest.raises(DriverError, match="17"):
        driver.queue_create(0, 17)
    assert "17" in driver.last_error()
    other: list[str] = []
    thread = threading.Thread(target=lambda: other.append(driver.last_error()))
    thread.start()
    thread.join()
    assert "17" not in other[0]
    assert "17" in driver.last_error()
