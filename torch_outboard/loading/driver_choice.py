"""Choosing the driver from a program, before the first use of the device."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from torch_outboard.drivers.discovery import DriverChoice, choose_driver
from torch_outboard.loading.driver_registration import register_driver
from torch_outboard.settings import DRIVER_VARIABLE
from torch_outboard.state import check_active, state

# Registered tables (ctypes objects) live as long as the process.
_kept_tables: list[object] = []


def use_driver(driver: str | os.PathLike[str] | int | ctypes.Structure) -> None:
    """Chooses the driver of this process. The device keeps its name.

    Args:
        driver: the name of an installed driver, the path of a library that exports
            `ob_driver_table`, or a table: its address, or the ctypes structure itself. An address
            has to stay valid until the process ends.

    Raises:
        RuntimeError: if the device was used already, or is not registered with PyTorch.
        ValueError: if there is no such driver, or it is installed under another name than the
            device's.
    """
    check_active()
    choice = _choice_for(driver)
    if choice.problem is not None:
        raise ValueError(f"driver '{driver}' cannot be used: {choice.problem}")
    register_driver(choice)


def _choice_for(driver: str | os.PathLike[str] | int | ctypes.Structure) -> DriverChoice:
    name = state.name
    if isinstance(driver, ctypes.Structure):
        _kept_tables.append(driver)
        return DriverChoice(name, table=ctypes.addressof(driver))
    if isinstance(driver, int) and not isinstance(driver, bool):
        return DriverChoice(name, table=driver)
    if not isinstance(driver, (str, os.PathLike)):
        raise TypeError(
            f"a driver is given as a name, a path or a table, not as {type(driver).__name__}"
        )
    text = os.fspath(driver)
    if isinstance(driver, os.PathLike) or os.sep in text or text.endswith(".so"):
        if not Path(text).exists():
            return DriverChoice(name, problem=f"the library {text} does not exist")
        return DriverChoice(name, library=Path(text).resolve())
    if text != name:
        return DriverChoice(
            name,
            problem=(
                f"the device is called '{name}' in this process; set "
                f"{DRIVER_VARIABLE}={text} before torch is imported"
            ),
        )
    return choose_driver(text)
