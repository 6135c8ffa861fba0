"""Registers the driver with the runtime, which loads it at the first use of the device."""

from __future__ import annotations

import dataclasses
import threading

from torch_outboard.drivers.discovery import DriverChoice, ask_module
from torch_outboard.state import state


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
