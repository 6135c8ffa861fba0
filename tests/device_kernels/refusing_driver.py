"""The `ocl` driver with a compiler that refuses everything, for tests."""

from __future__ import annotations

import ctypes
from typing import Any

from torch_outboard import _C
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status

builds = 0  # so far

_table: Driver  # alive until the process ends


def use() -> None:
    """Makes it the driver of this process; to be called before the first use of the device."""
    global _table
    original = contract.load(ocl.library_path())
    _table = Driver.from_buffer_copy(original)

    def build(context: int, source: Any, program: Any) -> int:
        global builds
        builds += 1
        source.contents.source = b"int refused("
        return original.program_build(context, source, program)

    def device_properties(context: int, device: int, properties: Any) -> int:
        status: int = original.device_properties(context, device, properties)
        if status == Status.OK:  # all of one model
            properties.contents.name = b"a device"
            properties.contents.driver_version = b"1"
        return status

    _table.device_properties = FUNCTIONS["device_properties"](device_properties)
    _table.program_build = FUNCTIONS["program_build"](build)
    _C.use_driver_table("ocl", ctypes.addressof(_table))
