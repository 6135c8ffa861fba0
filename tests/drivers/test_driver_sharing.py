"""Memory that other processes use, too."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver_support import MEMORY, DriverUnderTest, assert_bytes, fails_with

from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import Status

# No other driver of this package exports memory.
pytestmark = pytest.mark.host_only(unless_external=True)

SIZE = 100_000


Export = Callable[[int], contract.MemoryHandle]


@pytest.fixture
def export(driver: DriverUnderTest) -> Iterator[Export]:
    """Exports memory of device 0; descriptors are closed after the test."""
    driver.need("memory_export")
    made: list[int] = []

    def call(address: int) -> contract.MemoryHandle:
        handle = driver.memory_export(0, address)
        made.append(handle.descriptor)
        assert not os.get_inheritable(handle.descriptor)
        return handle

    yield call
    for descriptor in made:
        os.close(descriptor)


def test_import_is_the_same_memory(driver: DriverUnderTest, queue: int) -> None:
    """Also when the allocation and the descriptor are gone, and can be exported itself."""
    driver.need("memory_export")
    address = driver.allocate(0, SIZE, shareable=True)
    driver.fill(queue, address, b"ab", SIZE)
    driver.queue_synchronize(queue)
    handle = driver.memory_export(0, address)
    assert handle.bytes == SIZE
    imported = driver.memory_import(0, handle)
    assert imported != address
    assert_bytes(driver.read(queue, imported, SIZE), b"ab" * (SIZE // 2))
    driver.write(queue, imported + SIZE - 3, b"xyz")
    assert driver.read(queue, address + SIZE - 4, 4) == b"axyz"
    driver.deallocate(0, address)
    os.close(handle.descriptor)
    again = driver.memory_export(0, imported)
    driver.memory_close(0, imported)
    imported = driver.memory_import(0, again)
    os.close(again.descriptor)
    assert driver.read(queue, imported + SIZE - 4, 4) == b"axyz"
    driver.memory_close(0, imported)


def test_memory_comes_back(driver: DriverUnderTest, queue: int) -> None:
    """Shared memory is ordinary memory afterwards, in as large pieces, and no file is left."""
    driver.need("memory_export")
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        address = driver.allocate(0, driver.budget // 2, shareable=True)
        driver.fill(queue, address, b"ab", driver.budget // 2)
        driver.queue_synchronize(queue)
        handle = driver.memory_export(0, address)
        driver.deallocate(0, address)
        address = driver.allocate(0, driver.budget)
        driver.fill(queue, address, b"cd", driver.budget)
        driver.queue_synchronize(queue)
        driver.deallocate(0, address)
        imported = driver.memory_import(0, handle)
        assert driver.read(queue, imported, 2) == b"ab"
        driver.memory_close(0, imported)
        os.close(handle.descriptor)
    assert len(os.listdir("/proc/self/fd")) == files


def test_what_is_not_shared(driver: DriverUnderTest, export: Export, tmp_path: Path) -> None:
    with fails_with(Status.INVALID_ARGUMENT):
        driver.memory_export(0, 64)
    good = export(driver.make_memory(SIZE, shareable=True))
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 1 << 17)
    wrong = [(-1, SIZE), (10_000, SIZE), (file, SIZE), (good.descriptor, 0)]
    if driver.shipped:
        with fails_with(Status.INVALID_ARGUMENT):
            driver.memory_export(0, driver.make_memory(SIZE))
        wrong += [(good.descriptor, 1 << 20), (good.descriptor, 2**64 - 1)]
    for descriptor, size in wrong:
        handle = contract.described(
            contract.MemoryHandle, descriptor=descriptor, bytes=size, data=good.data
        )
        with fails_with(Status.INVALID_ARGUMENT):
            driver.memory_import(0, handle)
    os.close(file)


@pytest.mark.host_only
def test_shared_memory_counts(driver: DriverUnderTest, export: Export) -> None:
    free = driver.memory_info(0)[0]
    address = driver.allocate(0, SIZE, shareable=True)
    handle = export(address)
    imported = driver.memory_import(0, handle)
    assert driver.memory_info(0)[0] < free - 2 * SIZE + 1
    with fails_with(Status.OUT_OF_MEMORY):
        driver.allocate(0, MEMORY, shareable=True)
    driver.memory_close(0, imported)
    driver.deallocate(0, address)
    assert driver.memory_info(0)[0] == free
