"""The `ocl` driver, or another one, with functions of a test in place of some."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch_outboard
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status


def original(driver: ModuleType = ocl) -> Driver:
    return contract.load(driver.library_path())


def use(driver: ModuleType = ocl, /, **functions: Callable[..., int] | None) -> None:
    """Makes it the driver of this process; to be called before the first use of the device.

    None takes a function away.
    """
    table = Driver.from_buffer_copy(original(driver))
    for name, function in functions.items():
        setattr(table, name, FUNCTIONS[name](function) if function else FUNCTIONS[name]())
    torch_outboard.use_driver(table)


def with_properties(change: Callable[[Any], None], driver: ModuleType = ocl) -> Callable[..., int]:
    """`device_properties` with something else in them."""

    def device_properties(context: int, device: int, properties: Any) -> int:
        status: int = original(driver).device_properties(context, device, properties)
        if status == Status.OK:
            change(properties.contents)
        return status

    return device_properties
