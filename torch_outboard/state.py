"""State of the device's registration with PyTorch, the chosen driver, and the package's folder.

Every module may import this module, so it imports nothing from the package.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_outboard.drivers.discovery import DriverChoice

PACKAGE = Path(__file__).resolve().parent


@dataclass
class State:
    """The state of the process."""

    # The device's name in PyTorch; "" before activation and after a failed activation.
    name: str = ""
    # The reason why the device is not registered with PyTorch; None if it is.
    inactive: str | None = "it was not activated: import torch_outboard after torch"
    # The reason why the native code could not be loaded; None if it is loaded.
    extension_error: str | None = None
    # The problem of an environment setting; raised at the first use.
    wrong_setting: str | None = None
    choice: DriverChoice | None = None


state = State()


def check_active() -> None:
    """Raises RuntimeError if the device is not registered with PyTorch or cannot work at all."""
    if state.inactive is not None:
        raise RuntimeError(f"torch_outboard is not in use: {state.inactive}.")
    if state.extension_error is not None:
        raise RuntimeError(state.extension_error)
