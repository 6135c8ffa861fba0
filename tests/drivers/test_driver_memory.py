"""Memory of devices and pinned memory, where our drivers promise more than the contract."""

import ctypes
import os
import random
import time
from pathlib import Path

import pytest
from driver_support import MEMORY, DriverUnderTest, fails_with

from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import DeviceKind, Status


def test_limit_and_memory_info(driver: DriverUnderTest) -> None:
    assert driver.memory_info(0) == (MEMORY, MEMORY)
    address = driver.allocate(0, 10000)
    free, total = driver.memory_info(0)
    assert total == MEMORY
    assert MEMORY - 10000 - 4096 <= free <= MEMORY - 10000
    driver.deallocate(0, address)
    driver.make_memory(MEMORY // 2)
    with fails_with(Status.OUT_OF_MEMORY, f"{MEMORY // 2 + 1} bytes"):
        driver.allocate(0, MEMORY // 2 + 1)
    driver.make_memory(MEMORY // 2)
    assert driver.memory_info(1) == (MEMORY, MEMORY)
    driver.make_memory(MEMORY, device=1)
    with fails_with(Status.OUT_OF_MEMORY):
        driver.allocate(0, 1)


def test_deallocate_what_is_not_allocated(driver: DriverUnderTest) -> None:
    address = driver.allocate(0, 8192)
    host = ctypes.create_string_buffer(64)
    for device, wrong in [
        (0, address + 64),
        (0, address + 4096),
        (1, address),
        (0, 0),
        (0, 1),
        (0, ctypes.addressof(host)),
        (0, 2**64 - 1),
    ]:
        with fails_with(Status.INVALID_ARGUMENT) as error:
            driver.deallocate(device, wrong)
        assert f"{wrong:x}" in str(error.value)
    driver.deallocate(0, address)
    with fails_with(Status.INVALID_ARGUMENT):
        driver.deallocate(0, address)


def test_random_use_against_a_model(driver: DriverUnderTest) -> None:
    choose = random.Random(1)
    live: dict[int, int] = {}
    for _ in range(3000):
        if live and choose.random() < 0.5:
            address = choose.choice(list(live))
            driver.deallocate(0, address)
            del live[address]
            continue
        size = choose.choice([1, 4096, 5000, 1 << 16, 1 << 20, 3 << 20])
        address = contract.Address()
        wanted = contract.described(contract.Allocation, device=0, bytes=size)
        status = driver.status("allocate", wanted, ctypes.byref(address))
        if status != Status.OK:
            assert status == Status.OUT_OF_MEMORY
            if driver.name == "host":
                assert free_in_one_piece(live) < size
            else:  # counts bytes, and its addresses are not next to each other
                assert MEMORY - sum(live.values()) < size
            continue
        address = address.value
        assert all(address + size <= a or a + n <= address for a, n in live.items())
        live[address] = size
    for address in live:
        driver.deallocate(0, address)
    driver.deallocate(0, driver.allocate(0, MEMORY))  # all free pieces have become one again


def free_in_one_piece(live: dict[int, int]) -> int:
    """The least that is free somewhere between these allocations."""
    page = os.sysconf("SC_PAGE_SIZE")
    ends = [address + (size + page - 1) // page * page for address, size in sorted(live.items())]
    return max([start - end for end, start in zip(ends, sorted(live)[1:], strict=False)], default=0)


def test_freed_memory_goes_back_to_the_system(driver: DriverUnderTest, queue: int) -> None:
    def resident() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    if driver.device_properties(0).kind != DeviceKind.CPU:
        pytest.skip("memory of the device is no memory of the system")
    before = resident()
    address = driver.allocate(0, MEMORY)
    driver.fill(queue, address, b"x", MEMORY)
    driver.queue_synchronize(queue)
    assert resident() - before > MEMORY * 3 // 4
    driver.deallocate(0, address)
    # OpenCL keeps memory until it has put away the commands that used it, a moment later.
    deadline = time.monotonic() + 10
    while resident() - before >= MEMORY // 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert resident() - before < MEMORY // 4


def test_pinned_memory_is_aligned(driver: DriverUnderTest) -> None:
    for size in (1, 64, 1 << 20):
        pointer = driver.host_allocate(size)
        assert pointer % 64 == 0
        driver.host_deallocate(pointer)


def test_memory_that_cannot_be_registered(driver: DriverUnderTest) -> None:
    driver.need("host_register")
    host = ctypes.create_string_buffer(64)
    for pointer, size in ((0, 64), (ctypes.addressof(host), 0)):
        with fails_with(Status.INVALID_ARGUMENT):
            driver.host_register(pointer, size)
