"""Automatic mixed precision: what PyTorch asks a device module for, and short forms."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.state import state

__all__ = [
    "GradScaler",
    "autocast",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast` accepts for this device."""
    return [torch.float16, torch.bfloat16]


def is_autocast_enabled() -> bool:
    """Whether autocast is on for this device in this thread."""
    return torch.is_autocast_enabled(state.name)


def set_autocast_enabled(enabled: bool) -> None:
    """Turns autocast on or off for this device in this thread; see `torch.autocast`."""
    torch.set_autocast_enabled(state.name, enabled)


def get_autocast_dtype() -> torch.dtype:
    """The dtype to which autocast lowers on this device."""
    return torch.get_autocast_dtype(state.name)


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the dtype to which autocast lowers on this device."""
    torch.set_autocast_dtype(state.name, dtype)


class autocast(torch.amp.autocast):
    """`torch.autocast` for this device; float16 by default."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype | None = None,
        cache_enabled: bool | None = None,
    ) -> None:
        super().__init__(state.name, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler` for this device."""

    def __init__(self, **options: Any) -> None:
        super().__init__(state.name, **options)
