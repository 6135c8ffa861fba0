"""Opens the driver that is asked about, by its name or by its file."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch_outboard.check.session import Session
from torch_outboard.drivers import contract, faults, validation
from torch_outboard.drivers.discovery import ask_module, choose_driver

# By which fault injection delays all work on a queue, in microseconds.
DELAY_US = 200


@dataclass(frozen=True)
class Opened:
    """A driver that is ready for checks.

    Attributes:
        session: the driver.
        device: the name of its first device.
        remark: what a run behind fault injection lacks; "" for nothing.
    """

    session: Session
    device: str
    remark: str


def table_of(wanted: str) -> contract.Driver:
    """The table of a driver by name, or by the path of its library.

    Raises:
        ValueError: if there is none.
    """
    choice = choose_driver(wanted)
    if choice.problem is not None:
        raise ValueError(choice.problem)
    try:
        found = ask_module(choice) if choice.must_ask else choice.library or choice.table
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    if isinstance(found, int):
        return contract.Driver.from_address(found)
    if not isinstance(found, Path) or not found.is_file():
        raise ValueError(f"{found} is not a regular file")
    try:
        return contract.load(str(found))
    except (OSError, AttributeError, ValueError) as error:
        raise ValueError(str(error)) from error


def problem_of(table: contract.Driver) -> str | None:
    """Why a table cannot be called at all; None if it can."""
    if table.major != contract.VERSION_MAJOR:
        return (
            f"the table is of version {table.major} of the driver contract, and this "
            f"torch_outboard speaks version {contract.VERSION_MAJOR}"
        )
    if not table.last_error:
        return "the table lacks `last_error`"
    for name in ("initialize", "device_count"):
        if not getattr(table, name):
            return f"the table lacks `{name}`"
    return None


def whole(table: contract.Driver) -> contract.Driver:
    """A table as long as the header's: what a shorter one does not reach is NULL."""
    copy = contract.Driver()
    size = min(table.struct_size, ctypes.sizeof(copy))
    ctypes.memmove(ctypes.addressof(copy), ctypes.addressof(table), size)
    return copy


def open_driver(
    wanted: str, behind_faults: bool, on_call: Callable[[str], None] | None = None
) -> Opened:
    """Opens and initializes a driver.

    Args:
        wanted: a name, or the path of a library.
        behind_faults: whether fault injection, which delays work, and validation wrap the driver.
        on_call: called with the name of each function before it is called.

    Raises:
        ValueError: if there is no such driver, it cannot be initialized, or it has no device.
    """
    table = table_of(wanted)
    if problem := problem_of(table):
        raise ValueError(problem)
    table, remark = whole(table), ""
    if behind_faults:
        delayed = bool(table.host_callback)
        if not delayed:
            remark = "the driver has no `host_callback`, so nothing delays its work"
        os.environ["OUTBOARD_FAULTS"] = f"delay_us={DELAY_US}" if delayed else "count"
        table = contract.wrap(table, faults.library_path())
        table = contract.wrap(table, validation.library_path())
    try:
        session = Session(table, wanted, on_call)
        if session.devices < 1:
            raise ValueError(f"it found no device: {session.last_error() or 'it says no reason'}")
        device = session.device_properties(0).name.decode(errors="replace")
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    return Opened(session, device, remark)
