"""Modules `torch.<name>` of drivers that exist but are not in use.

PyTorch has one slot for out-of-tree devices, so with OUTBOARD_DRIVER=host there is no device "ocl".
As `torch.cuda` in a PyTorch without CUDA, these modules report that they are not available. The
messages of PyTorch's parser of device strings (`torch.device("ocl")`, `x.to("ocl")`) cannot be
changed from outside.
"""

from __future__ import annotations

import types
from typing import NoReturn

import torch

from torch_outboard.drivers.discovery import SHIPPED_DRIVERS


class OtherDevice(types.ModuleType):
    """A device module without a device.

    Args:
        name: the name of the driver that is not in use.
        used: the name of the driver in use.
    """

    def __init__(self, name: str, used: str) -> None:
        super().__init__(f"torch.{name}")
        self._words = (
            f"the device of this process is '{used}' and not '{name}'; PyTorch has room for one, "
            "which OUTBOARD_DRIVER chooses before torch is imported: use "
            f"device='{used}', or start the program with OUTBOARD_DRIVER={name}"
        )

    def is_available(self) -> bool:
        return False

    def is_initialized(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def init(self) -> NoReturn:
        raise RuntimeError(self._words)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.__name__} has no '{name}': {self._words}")


def register(used: str) -> None:
    """Sets `torch.<name>` for the drivers of this package that are not in use."""
    for name in SHIPPED_DRIVERS:
        if name != used and not hasattr(torch, name):
            setattr(torch, name, OtherDevice(name, used))
