"""Devices: their number, properties and state, and devices that do not exist."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import Failed
from torch_outboard.check.session import Session, expect, expect_bytes, expect_equal
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import Client
from torch_outboard.drivers.contract import (
    Addressing,
    DeviceProperties,
    DeviceStateField,
    HostAccess,
    Status,
)

FILLS = "Fills `properties` (struct_size set by the caller, the rest zero)."
CHECKED = "Device indices are (checked) in every function."


@check(
    "device_properties",
    says=FILLS,
    advice="Compare the fields with their comments in ob_device_properties.",
)
def properties(driver: Session) -> None:
    """Properties of every device are possible ones, and constant."""
    expect(driver.devices >= 1, "one device or more", driver.devices, function="device_count")
    for device in range(driver.devices):
        found = driver.device_properties(device)
        expect_equal(found.struct_size, ctypes.sizeof(DeviceProperties), "struct_size")
        for field in ("name", "vendor", "driver_version"):
            _expect_text(field, getattr(found, field))
        expect(found.name, "a name", "an empty one")
        expect(found.addressing in list(Addressing), "an addressing of 0 or 1", found.addressing)
        expect(found.host_access in list(HostAccess), "a host_access of 0 or 1", found.host_access)
        total, most = found.total_memory, found.max_allocation
        expect(0 < total <= 1 << 60, "a total_memory above 0 and below 2^60", total)
        expect(most <= total, f"max_allocation up to total_memory, {total}", most)
        power = found.alignment & (found.alignment - 1) == 0
        expect(power, "an alignment that is a power of two", found.alignment)
        limits = found.greatest_priority, found.least_priority
        expect(limits[0] <= limits[1], "greatest_priority <= least_priority", limits)
        again = bytes(driver.device_properties(device))
        expect_bytes(
            again,
            bytes(found),
            "the same properties again",
            says="Constant for the life of the process.",
        )


def _expect_text(field: str, text: bytes) -> None:
    try:
        printable = text.decode().isprintable()
    except UnicodeDecodeError:
        printable = False
    expect(printable, f"`{field}` in UTF-8, zero-terminated", repr(text))


@check(
    "device_properties",
    says="whoever allocates it sets the size, and the other side touches only the fields that "
    "the size covers.",
    advice="Fill a struct of your own, and copy the smaller of both sizes.",
)
def older_and_newer_structs(driver: Session) -> None:
    """The driver writes no more than the caller's struct has, and no more than its own."""

    class Newer(ctypes.Structure):
        _fields_ = (("known", DeviceProperties), ("unknown", ctypes.c_uint64))

    size = DeviceProperties.total_memory.offset
    older = DeviceProperties(struct_size=size, total_memory=7, alignment=9)
    driver.call("device_properties", 0, ctypes.byref(older))
    expect_equal(older.struct_size, size, "struct_size of an older struct")
    expect(older.name, "a name in an older struct", "none")
    behind = older.total_memory, older.alignment
    expect_equal(behind, (7, 9), "fields behind the end of an older struct")
    newer = Newer(DeviceProperties(struct_size=ctypes.sizeof(Newer)), 5)
    driver.call("device_properties", 0, ctypes.byref(newer.known))
    total = driver.device_properties(0).total_memory
    expect_equal(newer.known.total_memory, total, "total_memory in a newer struct")
    expect_equal(newer.unknown, 5, "a field that the driver does not know")


@check(
    says=CHECKED,
    advice="Begin each of these functions with a check of the index.",
)
def unknown_devices(driver: Session) -> None:
    """Every function refuses a device that does not exist."""
    for device in (-1, driver.devices, 2**31 - 1):
        for name, call in calls_of_a_device(driver, device).items():
            with driver.failing(Status.INVALID_ARGUMENT, name, f"device {device}"):
                call()
            expect(driver.last_error(), "a message", "an empty one", function="last_error")


def calls_of_a_device(driver: Client, device: int) -> dict[str, Callable[[], object]]:
    """A call of each function that takes a device and that the driver has."""
    calls: dict[str, Callable[[], object]] = {
        "device_properties": lambda: driver.device_properties(device),
        "allocate": lambda: driver.allocate(device, 64),
        "memory_info": lambda: driver.memory_info(device),
        "device_state": lambda: driver.device_state(device),
        "peer_access": lambda: driver.peer_access(device, 0),
        "queue_create": lambda: driver.queue_create(device),
        "event_create": lambda: driver.event_create(device),
        "device_synchronize": lambda: driver.call("device_synchronize", device),
        "device_reset": lambda: driver.device_reset(device),
    }
    return {name: call for name, call in calls.items() if driver.has(name)}


@check(
    "device_state",
    says="Fills `state` (struct_size set by the caller, the rest zero).",
    advice="Set a bit of `known` only for what was measured.",
)
def state(driver: Session) -> None:
    """What is known of a device is possible."""
    for device in range(driver.devices):
        found = driver.device_state(device)
        expect_equal(found.struct_size, ctypes.sizeof(contract.DeviceState), "struct_size")
        expect(found.known <= sum(DeviceStateField), "known bits alone", bin(found.known))
        if found.known & DeviceStateField.UTILIZATION:
            expect(0 <= found.utilization <= 100, "0 to 100 percent", found.utilization)
        if found.known & DeviceStateField.TEMPERATURE:
            expect(-100 < found.temperature < 200, "degrees Celsius", found.temperature)


@check(
    "peer_access",
    says="*direct = 1 if copies between two different devices go without memory of the host in "
    "between, else 0.",
    advice="Answer the same for both orders of the devices.",
    devices=2,
)
def peer_access(driver: Session) -> None:
    """The answer is 0 or 1 and the same in both directions."""
    answers = [driver.peer_access(0, 1), driver.peer_access(1, 0)]
    expect(set(answers) <= {0, 1}, "0 or 1", answers)
    expect_equal(answers[1], answers[0], "the answer for (1, 0)")


@check(
    "device_reset",
    says="Queues and events stay; pending work is dropped, and events behind it have happened.",
    advice="Leave device_reset NULL until the device can be restored.",
    direct_only=True,
)
def reset(driver: Session) -> None:
    """Queues and events of a device work after a reset."""
    device = driver.devices - 1
    queue, event = driver.queue_create(device), driver.event_create(device)
    if driver.has("host_callback"):
        driver.host_callback(queue, lambda: time.sleep(0.02))
    driver.event_record(event, queue)
    driver.device_reset(device)
    expect(driver.queue_query(queue), "an idle queue after the reset", "work on it")
    expect(driver.event_query(event), "an event that has happened", "a pending one")
    address = driver.allocate(device, 64)
    driver.fill(queue, address, b"ab", 64)
    driver.event_record(event, queue)
    driver.event_synchronize(event)
    expect_bytes(driver.read(queue, address, 64), b"ab" * 32, "a fill after the reset")
    driver.deallocate(device, address)
    driver.event_destroy(event)
    driver.queue_destroy(queue)


@check(
    "allocate",
    says="Allocations do not overlap, whatever their device.",
    advice="Keep the bytes of each device apart; look for state that is shared by all devices.",
    devices=2,
)
def isolation(driver: Session) -> None:
    """What is written on one device stays off the other, at the same offsets."""
    size = 1 << 20
    queues = [driver.make_queue(device) for device in range(2)]
    memory = [driver.make_memory(size, device) for device in range(2)]
    for device in range(2):
        driver.fill(queues[device], memory[device], bytes([device + 1]), size)
    for queue in queues:
        driver.queue_synchronize(queue)
    for device in range(2):
        found = driver.read(queues[device], memory[device], size)
        expect_bytes(found, bytes([device + 1]) * size, f"memory of device {device}")
    events = [driver.make_event(device) for device in range(2)]
    for device in range(2):
        driver.event_record(events[device], queues[device])
        driver.event_synchronize(events[device])
    ranges = [(address, address + size) for address in memory]
    if ranges[0][0] < ranges[1][1] and ranges[1][0] < ranges[0][1]:
        raise Failed("addresses of two devices that differ", f"{memory[0]:#x} and {memory[1]:#x}")
