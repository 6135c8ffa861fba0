"""Whether the device is registered with PyTorch, and by which driver.

Everything else may import this module, so it imports nothing of the package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_outboard.drivers.discovery import DriverChoice


@dataclass
class State:
    """The state of the package in this process."""

    # The device's name in PyTorch; "" before activation and when it failed.
    name: str = ""
    # Why the device is not registered with PyTorch; None when it is.
    inactive: str | None = "it was not activated: import torch_outboard after torch"
    # Why the native code could not be loaded; None when it could.
    extension_error: str | None = None
    # What is wrong with a setting in the environment; raised at the first use.
    wrong_setting: str | None = None
    choice: DriverChoice | None = None


state = State()


def check_active() -> None:
    """Raises RuntimeError if the device is not registered with PyTorch or cannot work at all."""
    if state.inactive is not None:
        raise RuntimeError(f"torch_outboard is not in use: {state.inactive}.")
    if state.extension_error is not None:
        raise RuntimeError(state.extension_error)
