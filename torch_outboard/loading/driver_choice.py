"""Choice of the driver, which the runtime loads at the first use of the device."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import threading
from pathlib import Path

from torch_outboard.drivers.discovery import DriverChoice, ask_module, choose_driver
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
                f"OUTBOARD_DRIVER={text} before torch is imported"
            ),
        )
    return choose_driver(text)


def register_driver(choice: DriverChoice) -> None:
    """Registers the location of the driver with the runtime; nothing is loaded yet.

    Raises:
        RuntimeError: if a driver is in use already.
    """
    from torch_outboard import _C

    if choice.table is not None:
        _C.use_driver_table(choice.name, choice.table)
    elif choice.library is not None:
        _C.use_driver_library(choice.name, str(choice.library))
    elif choice.problem is not None:
        _C.use_no_driver(choice.name, choice.problem)
    else:
        _C.use_driver_finder(choice.name, _ask_driver_module)
    state.choice = choice


# The module may use the device while it is imported.
_module_lock = threading.RLock()


def _ask_driver_module() -> None:
    """Imports the driver's module and registers its driver; called by the runtime at the first use.

    If the module provides no driver, every use raises the reason.
    """
    choice = state.choice
    if choice is None or not choice.must_ask:
        return
    with _module_lock:
        if state.choice is not choice:
            return
        try:
            answer = ask_module(choice)
        except RuntimeError as error:
            register_driver(dataclasses.replace(choice, problem=str(error)))
            return
        if isinstance(answer, int):
            register_driver(dataclasses.replace(choice, table=answer))
        else:
            register_driver(dataclasses.replace(choice, library=answer))
