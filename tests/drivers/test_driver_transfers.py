"""Copies of all kinds, fills, and what they refuse."""

import ctypes
import itertools
import os

import pytest
from driver_support import DriverUnderTest, assert_bytes

from tests.support import in_threads
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Feature, HostAccess, Status

# Around pages, around the size up to which the host driver copies at once, and beyond.
SIZES = [1, 3, 64, 4095, 4096, 16384, 16385, 100_001, 3 << 20]
OFFSETS = [0, 1, 64, 4097]


def pattern(size: int) -> bytes:
    once = bytes((i * 31 + (i >> 8)) % 256 for i in range(min(size, 8191)))
    return (once * (size // 8191 + 1))[:size]


def test_to_device_and_back(driver: DriverUnderTest, queue: int) -> None:
    address = driver.make_memory(max(SIZES) + max(OFFSETS) + 16)
    for size, offset in itertools.product(SIZES, OFFSETS):
        data = pattern(size)
        driver.fill(queue, address, b"\xee", size + offset + 16)
        driver.write(queue, address + offset, data)
        assert_bytes(driver.read(queue, address + offset, size), data)
        around = driver.read(queue, address, size + offset + 16)
        assert_bytes(around, b"\xee" * offset + data + b"\xee" * 16)


def test_within_a_device(driver: DriverUnderTest, queue: int) -> None:
    source, destination = driver.make_memory(max(SIZES) + 5), driver.make_memory(max(SIZES) + 9)
    for size in SIZES:
        data = pattern(size + 5)
        driver.write(queue, source, data)
        driver.fill(queue, destination, b"\xee", size + 9)
        driver.copy_device_to_device(queue, destination + 7, source + 5, size)
        copied = driver.read(queue, destination, size + 9)
        assert_bytes(copied, b"\xee" * 7 + data[5:] + b"\xee" * 2)


def test_between_devices(driver: DriverUnderTest) -> None:
    driver.need("copy_peer")
    queues = [driver.make_queue(0), driver.make_queue(1)]
    there, here = (driver.make_memory(max(SIZES), device) for device in (1, 0))
    for size, queue in itertools.product(SIZES, queues):
        data = pattern(size)
        driver.write(queues[0], here, data)
        driver.fill(queues[1], there, b"\xee", size)
        driver.queue_synchronize(queues[1])
        driver.copy_peer(queue, 1, there, 0, here, size)
        driver.queue_synchronize(queue)
        assert_bytes(driver.read(queues[1], there, size), data)


@pytest.mark.parametrize("kind", ["host_to_device", "device_to_host", "device_to_device"])
def test_rows(driver: DriverUnderTest, queue: int, kind: str) -> None:
    driver.need(f"copy_{kind}_2d")
    from_host, to_host = kind == "host_to_device", kind == "device_to_host"
    memory = driver.make_memory(1 << 17), driver.make_memory(1 << 17)
    for row_bytes, rows, source_pitch, destination_pitch in (
        (1, 1, 1, 1), (3, 5, 3, 8), (8, 100, 16, 8), (100, 400, 100, 128), (7, 5000, 9, 11),
    ):  # fmt: skip
        data = pattern((rows - 1) * source_pitch + row_bytes)
        size = (rows - 1) * destination_pitch + row_bytes
        expected = bytearray(b"\xee" * size)
        for row in range(rows):
            start = row * destination_pitch
            expected[start : start + row_bytes] = data[row * source_pitch :][:row_bytes]

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
        assert_bytes(
            result.raw if to_host else driver.read(queue, memory[1], size), bytes(expected)
        )


def test_fill(driver: DriverUnderTest, queue: int) -> None:
    behind = 9000  # bytes, more than a driver may write at once
    address = driver.make_memory(16 * 300_001 + behind + 3)
    for width, repeats in itertools.product([1, 2, 4, 8, 16], [1, 5, 1000, 5000, 300_001]):
        value, size = os.urandom(width), width * repeats
        driver.fill(queue, address, b"\xee", 3 + size + behind)
        driver.fill(queue, address + 3, value, size)  # aligned to nothing
        written = driver.read(queue, address, 3 + size + behind)
        assert_bytes(written, b"\xee" * 3 + value * repeats + b"\xee" * behind)


def test_pattern_is_copied_by_the_call(driver: DriverUnderTest, queue: int) -> None:
    address = driver.make_memory(8)
    value = ctypes.create_string_buffer(b"ab", 2)
    opened = driver.gate(queue)
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


def test_ranges_outside_an_allocation(driver: DriverUnderTest) -> None:
    queue, host = driver.make_queue(0), ctypes.create_string_buffer(8192)
    address, freed = driver.make_memory(4096), driver.allocate(0, 4096)
    driver.write(queue, address, b"q" * 4096)
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
    if driver.has("copy_peer"):
        refused(driver, "copy_peer", queue, 1, address, 0, address, 16)
        refused(driver, "copy_peer", queue, 0, address, 7, address, 16)
    if driver.devices > 1:
        other = driver.make_queue(1)
        refused(driver, "copy_host_to_device", other, address, host, 16)
        if driver.has("copy_peer"):  # on a queue of a third device
            refused(driver, "copy_peer", other, 0, address, 0, address + 32, 16)
    if driver.has("copy_host_to_device_2d"):
        refused(driver, "copy_host_to_device_2d", queue, address, 64, host, 64, 64, 65)
        refused(driver, "copy_host_to_device_2d", queue, address, 2**63, host, 64, 64, 3)
    assert_bytes(driver.read(queue, address, 4096), b"q" * 4096)


def test_nothing_to_copy_and_bad_patterns(driver: DriverUnderTest, queue: int) -> None:
    host = ctypes.create_string_buffer(64)
    address = driver.make_memory(64)
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


def test_host_memory_as_device_memory(driver: DriverUnderTest, queue: int) -> None:
    host = ctypes.create_string_buffer(64)
    address = driver.make_memory(64)
    if not adopts_host_memory(driver):
        refused(driver, "fill", queue, ctypes.addressof(host), b"ab", 2, 64)
        if driver.shipped:  # an address is no pointer of the host, which no driver need find out
            refused(driver, "copy_host_to_device", queue, address, address, 64)
        return
    driver.fill(queue, ctypes.addressof(host), b"ab", 64)
    driver.copy_device_to_device(queue, address, ctypes.addressof(host), 64)
    assert driver.read(queue, address, 64) == b"ab" * 32


def test_shared_memory_is_seen_by_the_host(driver: DriverUnderTest, queue: int) -> None:
    if driver.device_properties(0).host_access != HostAccess.COHERENT:
        return  # test_host_access.py
    address = driver.make_memory(4096)
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
    (other,) = in_threads(lambda _: driver.last_error(), 1)
    assert "17" not in other
    assert "17" in driver.last_error()
