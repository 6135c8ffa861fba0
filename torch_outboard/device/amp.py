"""Automatic mixed precision: PyTorch's hooks in a device module, and short forms."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.device.devices import _lazy_call
from torch_outboard.state import state

__all__ = [
    "GradScaler",
    "autocast",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_enabled",
    "register_policy",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast` accepts for this device."""
    # torch.autocast calls this before the first use of the device, which fake tensors never make.
    _C.register_autocast()
    return [torch.float16, torch.bfloat16]


def is_autocast_enabled() -> bool:
    """Whether autocast is on for this device in this thread."""
    return torch.is_autocast_enabled(state.name)


def set_autocast_enabled(enabled: bool) -> None:
    """Turns autocast on or off for this device in this thread; see `torch.autocast`."""
    torch.set_autocast_enabled(state.name, enabled)


def get_autocast_dtype() -> torch.dtype:
    """The lower-precision dtype of autocast on this device."""
    return torch.get_autocast_dtype(state.name)


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the lower-precision dtype of autocast on this device."""
    torch.set_autocast_dtype(state.name, dtype)


def register_policy(op: str | torch._ops.OpOverload, policy: str) -> None:
    """Registers the dtype in which an operator runs under autocast on this device.

    It is for operators of other libraries: PyTorch's operators have policies. Floating-point
    tensors among the arguments are cast, except float64; casts of weights are cached until the
    outermost `torch.autocast` ends. A second call replaces the policy. For one fixed dtype there is
    also `torch.library.register_autocast`.

    Args:
        op: the overload, `torch.ops.library.name.default`, or its name, "library::name".
        policy: "lower_precision_fp" for the dtype of `torch.autocast`, "fp32" for float32,
            "promote" for the widest dtype among the arguments: PyTorch's names.

    Raises:
        ValueError: if there is no such operator or policy, if the operator writes to its arguments,
            or if it has a policy from elsewhere.
    """
    name = op if isinstance(op, str) else op.name()
    _C.set_autocast_policy(name, policy)


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


# PyTorch calls no hook for torch.autocast("mychip:0") and torch.set_autocast_enabled.
_lazy_call(_C.register_autocast)
