"""Memory that other processes use, too."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver_support import MEMORY, DriverUnderTest, assert_bytes

from torch_outboard.drivers import contract
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

SIZE = 100_000

MakeShared = Callable[..., int]


@pytest.fixture
def make_shared(driver: DriverUnderTest) -> Iterator[MakeShared]:
    """Allocates shareable memory (bytes) on device 0 until after the test."""
    driver.need("memory_export")
    made: list[int] = []

    def make(size: int = SIZE) -> int:
        made.append(driver.allocate(0, size, shareable=True))
        return made[-1]

    yield make
    for address in made:
        driver.deallocate(0, address)


@pytest.fixture
def export(driver: DriverUnderTest) -> Iterator[Callable[[int], contract.MemoryHandle]]:
    """Exports memory of device 0; descriptors are closed after the test."""
    made: list[int] = []

    def call(address: int) -> contract.MemoryHandle:
        handle = driver.memory_export(0, address)
        made.append(handle.descriptor)
        assert not os.get_inheritable(handle.descriptor)
        return handle

    yield call
    for descriptor in made:
        os.close(descriptor)


Export = Callable[[int], contract.MemoryHandle]


def test_import_is_the_same_memory(
    driver: DriverUnderTest, queue: int, make_shared: MakeShared, export: Export
) -> None:
    address = make_shared()
    driver.fill(queue, address, b"ab", SIZE)
    driver.queue_synchronize(queue)
    handle = export(address)
    assert handle.bytes == SIZE
    imported = driver.memory_import(0, handle)
    assert imported != address
    assert_bytes(driver.read(queue, imported, SIZE), b"ab" * (SIZE // 2))
    driver.write(queue, imported + SIZE - 3, b"xyz")
    assert driver.read(queue, address + SIZE - 4, 4) == b"axyz"
    driver.memory_close(0, imported)


def test_import_outlives_allocation_and_descriptor(driver: DriverUnderTest, queue: int) -> None:
    driver.need("memory_export")
    address = driver.allocate(0, SIZE, shareable=True)
    driver.fill(queue, address, b"ab", SIZE)
    driver.queue_synchronize(queue)
    handle = driver.memory_export(0, address)
    driver.deallocate(0, address)
    imported = driver.memory_import(0, handle)
    os.close(handle.descriptor)
    assert_bytes(driver.read(queue, imported, SIZE), b"ab" * (SIZE // 2))
    # And can be exported itself.
    again = driver.memory_export(0, imported)
    driver.memory_close(0, imported)
    imported = driver.memory_import(0, again)
    os.close(again.descriptor)
    assert driver.read(queue, imported, 2) == b"ab"
    driver.memory_close(0, imported)


def test_memory_comes_back(driver: DriverUnderTest, queue: int, export: Export) -> None:
    """What was shared is ordinary memory afterwards, in as large pieces as before."""
    driver.need("memory_export")
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


_OTHER_PROCESS = """
import ctypes, os, sys
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import Client

driver = Client(contract.load(sys.argv[1]))
size = int(sys.argv[3])
data = (ctypes.c_ubyte * 64).from_buffer_copy(bytes.fromhex(sys.argv[4]))
handle = contract.described(
    contract.MemoryHandle, descriptor=int(sys.argv[2]), bytes=size, data=data
)
address, queue = driver.memory_import(0, handle), driver.queue_create(0)
assert driver.read(queue, address, size) == b"ab" * (size // 2)
driver.fill(queue, address, b"xy", size)
driver.queue_synchronize(queue)
"""


@pytest.mark.by_turns(4)
@pytest.mark.shipped_only
def test_another_process_writes_into_it(
    driver: DriverUnderTest, queue: int, make_shared: MakeShared, export: Export
) -> None:
    import importlib

    library = importlib.import_module(f"torch_outboard.drivers.{driver.name}").library_path()
    address = make_shared()
    driver.fill(queue, address, b"ab", SIZE)
    driver.queue_synchronize(queue)
    handle = export(address)
    # The other process has the other kind of memory, where there are two.
    access = {"shared": "separate", "separate": "shared"}
    name = driver.device_properties(0).name
    kind = "shared" if b"shared" in name else "separate"
    arguments = [library, str(handle.descriptor), str(SIZE), bytes(handle.data).hex()]
    environment = os.environ | {
        "OUTBOARD_HOST_ACCESS": access[kind],
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS, *arguments],
        check=True, pass_fds=[handle.descriptor], env=environment, timeout=60,
    )  # fmt: skip
    assert_bytes(driver.read(queue, address, SIZE), b"xy" * (SIZE // 2))


def test_only_shareable_memory_is_exported(
    driver: DriverUnderTest, make_shared: MakeShared, make_memory: Callable[..., int]
) -> None:
    make_shared()
    handle = contract.described(contract.MemoryHandle)
    if driver.shipped:
        ordinary = make_memory(SIZE)
        status = driver.status("memory_export", 0, ordinary, ctypes.byref(handle))
        assert status == Status.INVALID_ARGUMENT
    with pytest.raises(DriverError) as error:
        driver.memory_export(0, 64)
    assert error.value.status == Status.INVALID_ARGUMENT


def test_descriptors_that_are_no_memory(
    driver: DriverUnderTest, make_shared: MakeShared, export: Export, tmp_path: Path
) -> None:
    driver.need("memory_import")
    good = export(make_shared())
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 1 << 17)
    wrong = [(-1, SIZE), (10_000, SIZE), (file, SIZE), (good.descriptor, 0)]
    if driver.shipped:
        wrong += [(good.descriptor, 1 << 20), (good.descriptor, 2**64 - 1)]
    for descriptor, size in wrong:
        handle = contract.described(
            contract.MemoryHandle, descriptor=descriptor, bytes=size, data=good.data
        )
        with pytest.raises(DriverError) as error:
            driver.memory_import(0, handle)
        assert error.value.status == Status.INVALID_ARGUMENT
    os.close(file)


@pytest.mark.host_only
def test_shared_memory_counts(driver: DriverUnderTest, export: Export) -> None:
    free = driver.memory_info(0)[0]
    address = driver.allocate(0, SIZE, shareable=True)
    handle = export(address)
    imported = driver.memory_import(0, handle)
    assert driver.memory_info(0)[0] < free - 2 * SIZE + 1
    with pytest.raises(DriverError) as error:
        driver.allocate(0, MEMORY, shareable=True)
    assert error.value.status == Status.OUT_OF_MEMORY
    driver.memory_close(0, imported)
    driver.deallocate(0, address)
    assert driver.memory_info(0)[0] == free
