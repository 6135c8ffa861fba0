"""The device module when the native code does not load: every use raises a message.

It replaces `torch_outboard.device.device_module`, so it has only the functions that PyTorch may
call in every device module at any time.
"""

from __future__ import annotations

import sys
import types
from typing import NoReturn

import torch

from torch_outboard.state import state

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


def _lazy_init() -> NoReturn:
    raise RuntimeError(state.extension_error)


init = _lazy_init


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def _is_in_bad_fork() -> bool:
    return False


def manual_seed_all(seed: int) -> None:
    """Does nothing: there is nothing to seed."""


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def __getattr__(name: str) -> NoReturn:
    reason = state.extension_error or "its native code is not loaded"
    raise AttributeError(f"torch.{state.name} has no '{name}' now. {reason}")
