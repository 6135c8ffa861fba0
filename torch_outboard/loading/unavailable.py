"""Devices that cannot be used: their modules, operators and native code raise the reason.

PyTorch has one slot for out-of-tree devices, so with OUTBOARD_DRIVER=host there is no device "ocl".
Like `torch.cuda` in a PyTorch without CUDA, `torch.ocl` then reports that it is not available. The
messages of PyTorch's parser of device strings (`torch.device("ocl")`, `x.to("ocl")`) cannot be
changed from outside. When the native code does not load, the device of the process is such a one.
"""

from __future__ import annotations

import sys
import types
from typing import NoReturn

import torch

from torch_outboard.drivers.discovery import SHIPPED_DRIVERS


class AbsentDevice(types.ModuleType):
    """A device module without a device, with what PyTorch may call in any module at any time.

    Args:
        name: the name of the device.
        reason: the message of every use.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"torch.{name}")
        self._reason = reason

    def is_available(self) -> bool:
        return False

    is_initialized = _is_in_bad_fork = is_available

    def device_count(self) -> int:
        return 0

    def manual_seed_all(self, seed: int) -> None:
        """Does nothing: there is nothing to seed."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def init(self) -> NoReturn:
        raise RuntimeError(self._reason)

    _lazy_init = init

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.__name__} has no '{name}': {self._reason}")


def register_other_devices(used: str) -> None:
    """Sets `torch.<name>` for the drivers of this package that are not in use."""
    for name in SHIPPED_DRIVERS:
        if name != used and not hasattr(torch, name):
            reason = (
                f"the device of this process is '{used}' and not '{name}'; PyTorch has room for "
                f"one, which OUTBOARD_DRIVER chooses before torch is imported: use "
                f"device='{used}', or start the program with OUTBOARD_DRIVER={name}"
            )
            setattr(torch, name, AbsentDevice(name, reason))


# ---- Without native code


_libraries: list[torch.library.Library] = []


def raise_from_every_operator(message: str) -> None:
    """Makes every operator on a tensor of the device raise RuntimeError with `message`."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(message)

    library = torch.library.Library("_", "IMPL")
    library.fallback(refuse, "PrivateUse1")
    _libraries.append(library)


class _Extension(types.ModuleType):
    """A replacement of `torch_outboard._C`: reading a name raises RuntimeError."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # names that Python itself reads
            raise AttributeError(name)
        raise RuntimeError(self.__doc__)


def stand_in_for_extension(message: str) -> None:
    """Makes every use of the native part raise RuntimeError with `message`."""
    extension = _Extension("torch_outboard._C", message)
    sys.modules[extension.__name__] = extension
    sys.modules["torch_outboard"].__dict__["_C"] = extension  # as importing it would
