"""Messages for command-line users: the reason why the device cannot be used."""

from __future__ import annotations

import torch

from torch_outboard.state import check_active, state


def device_problem() -> str | None:
    """The reason why the device cannot be used; None if it can."""
    try:
        check_active()
        torch.get_device_module(state.name).init()
    except RuntimeError as error:
        return str(error).partition("\nException raised from")[0]
    return None


def index_problem(index: int) -> str | None:
    """The reason why a working driver has no device of an index; None if it has one."""
    name = state.name
    count = torch.get_device_module(name).device_count()
    if 0 <= index < count:
        return None
    there = "one device, 0" if count == 1 else f"{count} devices, 0 to {count - 1}"
    return f"device {index} was asked for, and '{name}' has {there}; `devices` lists them"
