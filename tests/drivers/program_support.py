"""Kernels that tests of programs launch, in a text for every driver that runs code."""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


@contextmanager
def kernel_maker(
    driver: DriverUnderTest, program_of: Callable[[int], int]
) -> Iterator[Callable[..., int]]:
    """Creates kernels (name, device) of a program per device; all are released at the end.

    Args:
        driver: it must run code.
        program_of: builds or loads the program for a device.
    """
    programs: dict[int, int] = {}
    kernels: list[int] = []

    def make(name: str, device: int = 0) -> int:
        if device not in programs:
            programs[device] = program_of(device)
        kernels.append(driver.kernel_create(programs[device], name))
        return kernels[-1]

    yield make
    for program in programs.values():
        driver.program_release(program)
    for kernel in kernels:
        driver.kernel_release(kernel)
