"""Kernels that tests of programs launch, in a text for every driver that runs code."""

from __future__ import annotations

import array

from driver_support import DriverUnderTest

from torch_outboard.drivers.contract import Addressing

# One text for pointers and for (memory object, offset in bytes).
_MACROS = {
    Addressing.POINTER: """
#define ADDRESS(type, name) __global type* name
#define AT(type, name) name
""",
    Addressing.HANDLE: """
#define ADDRESS(type, name) __global type* name##_start, ulong name##_offset
#define AT(type, name) ((__global type*)((__global char*)name##_start + name##_offset))
""",
}


def source_for(driver: DriverUnderTest, text: str) -> str:
    """A text in which ADDRESS declares a parameter, and AT is the pointer that it stands for."""
    return _MACROS[Addressing(driver.device_properties(0).addressing)] + text


def ints(*values: int) -> bytes:
    """Values as a kernel's `int`s lie in memory."""
    return array.array("i", values).tobytes()


def read_ints(driver: DriverUnderTest, queue: int, address: int, count: int) -> list[int]:
    """The same from memory of a device, after the work of the queue so far."""
    return list(array.array("i", driver.read(queue, address, 4 * count)))
