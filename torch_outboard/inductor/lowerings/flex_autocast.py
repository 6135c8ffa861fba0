"""`flex_attention` under autocast, in eager mode and compiled: query, key and value are cast."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet

_KEY = DispatchKey.AutocastPrivateUse1


def register() -> None:
    """Registers it with PyTorch's operator, which has it for CPU and CUDA alone."""
    flex_attention = torch.ops.higher_order.flex_attention
    if _KEY in flex_attention.py_kernels:
        return

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.dtype == torch.float64:
            return tensor
        return tensor.to(torch.get_autocast_dtype(tensor.device.type))

    def attend(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any
    ) -> tuple[torch.Tensor, ...]:
        with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(_KEY)):
            results: tuple[torch.Tensor, ...] = flex_attention(
                cast(query), cast(key), cast(value), *others
            )
        return results

    flex_attention.py_impl(_KEY)(attend)
