"""Modules in place of a device module: one that is imported later, and one without a device.

`import torch` registers the device module. Most programs use a device much later, or never, so
Python imports it at the first access to one of its names.

PyTorch has one slot for out-of-tree devices, so with OUTBOARD_DRIVER=host there is no device "ocl".
Like `torch.cuda` in a PyTorch without CUDA, `torch.ocl` then reports that it is not available. The
messages of PyTorch's parser of device strings (`torch.device("ocl")`, `x.to("ocl")`) cannot be
changed from outside.
"""

from __future__ import annotations

import importlib
import types
from typing import Any, NoReturn

import torch

from torch_outboard.drivers.discovery import SHIPPED_DRIVERS


class DeferredModule(types.ModuleType):
    """A placeholder for a module; the first read of a name loads all names of the module.

    Attributes set before stay. Threads may read concurrently: the import system lets only one of
    them import.

    Args:
        name: the full name of the module.
    """

    def __getattr__(self, name: str) -> Any:
        # `inspect` reads the file of every module.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._become()
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        self._become()
        return dir(self)

    def _become(self) -> None:
        module = importlib.import_module(self.__name__)
        own = self.__dict__
        for name, value in vars(module).items():
            if own.get(name) is None:  # `__doc__` and `__spec__` are None until here
                own[name] = value
        self.__class__ = types.ModuleType  # type: ignore[assignment]


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


def register_other_devices(used: str) -> None:
    """Sets `torch.<name>` for the drivers of this package that are not in use."""
    for name in SHIPPED_DRIVERS:
        if name != used and not hasattr(torch, name):
            setattr(torch, name, OtherDevice(name, used))
