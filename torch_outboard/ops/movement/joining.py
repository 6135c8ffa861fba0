"""Joining tensors."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.composed import composed, require
from torch_outboard.ops.row import Row

FAMILY: dict[str, Any] = {"family": "movement"}


def _join_unsqueezed(tensors: list[torch.Tensor], dim: int) -> torch.Tensor:
    require(all(tensor.shape == tensors[0].shape for tensor in tensors))
    return torch.cat([tensor.unsqueeze(dim) for tensor in tensors], dim)


def _stack(tensors: list[torch.Tensor], dim: int) -> torch.Tensor:
    """As CPU, joins first and then splits the dimension, which keeps the memory format."""
    sizes = tensors[0].shape
    rank = len(sizes)
    place = dim if dim >= 0 else dim + rank + 1
    if not 0 <= place < rank or any(tensor.shape != sizes for tensor in tensors):
        return _join_unsqueezed(tensors, dim)
    return torch.cat(tensors, place).view(*sizes[:place], len(tensors), *sizes[place:])


def rows() -> list[Row]:
    """Every row."""
    some = ["len(tensors) > 0"]
    return [
        composed(
            "cat cat.out",
            "cat",
            results="out",
            meta="aten::cat",
            casts="TypeError",
            **FAMILY,
        ),
        composed("stack", _stack, conditions=some, **FAMILY),
        composed(
            "stack.out _stack _stack.out",
            _join_unsqueezed,
            conditions=some,
            casts="TypeError",
            **FAMILY,
        ),
    ]
