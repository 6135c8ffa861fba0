"""Memory that other processes use, too."""

from __future__ import annotations

import os

from torch_outboard.check.catalog import check
from torch_outboard.check.session import Session, expect, expect_bytes, expect_equal
from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import Status

SIZE = 100_000
LIVES = (
    "The bytes live as long as the allocation, a descriptor or an import of them in any process, "
    "whichever is the last"
)


@check("memory_export", says=LIVES, advice="Let the descriptor and each import hold the memory.")
def import_is_the_same_memory(driver: Session) -> None:
    """An import has the same bytes, also when allocation and descriptor are gone."""
    queue = driver.make_queue()
    address = driver.allocate(0, SIZE, shareable=True)
    driver.fill(queue, address, b"ab", SIZE)
    driver.queue_synchronize(queue)
    handle = driver.memory_export(0, address)
    expect_equal(handle.bytes, SIZE, "bytes of the handle")
    inherited = os.get_inheritable(handle.descriptor)
    expect(not inherited, "a descriptor that is closed on exec", "one that is not")
    imported = driver.memory_import(0, handle)
    expect(imported != address, "an address of its own", hex(imported), function="memory_import")
    expect_bytes(driver.read(queue, imported, SIZE), b"ab" * (SIZE // 2), "the import")
    driver.write(queue, imported + SIZE - 3, b"xyz")
    expect_bytes(driver.read(queue, address + SIZE - 4, 4), b"axyz", "the allocation")
    driver.deallocate(0, address)
    os.close(handle.descriptor)
    again = driver.memory_export(0, imported)
    driver.memory_close(0, imported)
    imported = driver.memory_import(0, again)
    os.close(again.descriptor)
    expect_bytes(driver.read(queue, imported + SIZE - 4, 4), b"axyz", "an import of the import")
    driver.memory_close(0, imported)


@check("memory_export", says=LIVES, advice="Free the memory when the last of them is gone.")
def memory_comes_back(driver: Session) -> None:
    """Shared memory is ordinary memory afterwards, and no file stays open."""
    queue, size = driver.make_queue(), driver.budget
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        address = driver.allocate(0, size // 2, shareable=True)
        driver.fill(queue, address, b"ab", size // 2)
        driver.queue_synchronize(queue)
        handle = driver.memory_export(0, address)
        driver.deallocate(0, address)
        address = driver.allocate(0, size)
        driver.fill(queue, address, b"cd", size)
        driver.queue_synchronize(queue)
        driver.deallocate(0, address)
        imported = driver.memory_import(0, handle)
        expect_bytes(driver.read(queue, imported, 2), b"ab", "shared memory")
        driver.memory_close(0, imported)
        os.close(handle.descriptor)
    expect_equal(len(os.listdir("/proc/self/fd")), files, "open files")


@check(
    "memory_import",
    says="OB_INVALID_ARGUMENT for a handle of another driver or of a device that this one cannot "
    "share with.",
    advice="Put a name of the driver into `data`, and compare the size with that of the file.",
)
def foreign_handles(driver: Session) -> None:
    """Handles that are none of this driver are refused."""
    address = driver.make_memory(SIZE, shareable=True)
    good = driver.memory_export(0, address)
    file = os.memfd_create("outboard_check")
    os.ftruncate(file, 1 << 17)
    for descriptor, size in ((-1, SIZE), (10_000, SIZE), (file, SIZE), (good.descriptor, 0)):
        handle = contract.described(
            contract.MemoryHandle, descriptor=descriptor, bytes=size, data=good.data
        )
        case = f"descriptor {descriptor} with {size} bytes"
        with driver.failing(Status.INVALID_ARGUMENT, "memory_import", case):
            driver.memory_import(0, handle)
    os.close(file)
    os.close(good.descriptor)
