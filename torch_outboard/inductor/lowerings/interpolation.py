"""Nearest-neighbour `interpolate` by whole factors, as a view in traces of the device.

PyTorch's decomposition computes an index for each row and column and reads the image there. Its
derivative adds at these indices, one element at a time. With a whole factor each element is
repeated in neighbouring elements: an expanded dimension replaces the read, and a sum over it the
addition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
_EXACT = (
    aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d,
)  # fmt: skip
_NEAREST = (aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d)


def define() -> None:
    """Registers the decompositions for tensors of the device; further calls change nothing."""
    keys = torch._C.DispatchKey
    for packet in (*_NEAREST, *_EXACT):
        operator = packet.vec
        if keys.AutogradPrivateUse1 not in operator.py_kernels:
            original = operator.py_kernels[keys.Autograd]
            operator.py_impl(keys.AutogradPrivateUse1)(_enlarged(original, packet in _EXACT))


def _enlarged(original: Callable[..., torch.Tensor], exact: bool) -> Callable[..., torch.Tensor]:
    def enlarge(x: torch.Tensor, size: Any, scales: Any) -> torch.Tensor:
        times = whole_factors(x, size, scales, exact)
        if times is None:
            return original(x, size, scales)
        apart, repeated, sizes = list(x.shape[:2]), list(x.shape[:2]), list(x.shape[:2])
        for length, count in zip(x.shape[2:], times, strict=True):
            apart += [length, 1]
            repeated += [length, count]
            sizes.append(length * count)
        return x.reshape(apart).expand(repeated).reshape(sizes)

    return enlarge


def whole_factors(x: torch.Tensor, size: Any, scales: Any, exact: bool) -> list[int] | None:
    """Repeats of each element along each dimension; None if they differ or are unknown."""
    lengths: Sequence[Any] = x.shape[2:]
    given = [y / n for y, n in zip(size, lengths, strict=True)] if scales is None else scales
    if x.is_complex() or not all(isinstance(part, (int, float)) for part in (*x.shape, *given)):
        return None
    if x.numel() == 0 or suggest_memory_format(x) != torch.contiguous_format:
        return None
    times = [int(factor) for factor in given]
    for length, count, factor in zip(lengths, times, given, strict=True):
        if count != factor or count < 1:
            return None
        with _disable_current_modes():
            # The decomposition rounds indices to single precision.
            outputs = torch.arange(length * count, dtype=torch.float32)
            read = ((outputs + (0.5 if exact else 0.0)) * (length / (length * factor))).long()
            if not torch.equal(read, torch.arange(length * count) // count):
                return None
    return times
