"""Memory that other processes use, too: what `host` refuses and counts."""

import os
from collections.abc import Callable, Iterator

import pytest
from driver_support import MEMORY, DriverUnderTest, fails_with

from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import Status

# No other driver of this package exports memory.
pytestmark = pytest.mark.host_only

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


def test_what_is_not_shared(driver: DriverUnderTest, export: Export) -> None:
    with fails_with(Status.INVALID_ARGUMENT):
        driver.memory_export(0, 64)
    with fails_with(Status.INVALID_ARGUMENT):
        driver.memory_export(0, driver.make_memory(SIZE))
    good = export(driver.make_memory(SIZE, shareable=True))
    wrong = [(good.descriptor, 1 << 20), (good.descriptor, 2**64 - 1)]
    for descriptor, size in wrong:
        handle = contract.described(
            contract.MemoryHandle, descriptor=descriptor, bytes=size, data=good.data
        )
        with fails_with(Status.INVALID_ARGUMENT):
            driver.memory_import(0, handle)


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
