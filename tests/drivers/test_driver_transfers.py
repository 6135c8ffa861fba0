"""What copies and fills of our drivers refuse, which the contract lets callers promise."""

import ctypes

from driver_support import DriverUnderTest

from torch_outboard.check.session import expect_bytes
from torch_outboard.drivers.contract import Feature, Status


def adopts_host_memory(driver: DriverUnderTest) -> bool:
    return bool(driver.device_properties(0).features & Feature.HOST_MEMORY_IS_DEVICE_MEMORY)


def refused(driver: DriverUnderTest, name: str, *arguments: object) -> None:
    assert driver.status(name, *arguments) == Status.INVALID_ARGUMENT
    message = driver.last_error()
    assert message.endswith("."), message


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
    expect_bytes(driver.read(queue, address, 4096), b"q" * 4096, "the allocation")


def test_nothing_to_copy_and_bad_patterns(driver: DriverUnderTest, queue: int) -> None:
    host = ctypes.create_string_buffer(64)
    address = driver.make_memory(64)
    refused(driver, "copy_host_to_device", queue, address, host, 0)
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
        refused(driver, "copy_host_to_device", queue, address, address, 64)
