"""Joining tensors."""

from __future__ import annotations

import torch

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import Definition
from torch_outboard.ops.symbolic import SymBool, SymTensors


def _join_unsqueezed(tensors: list[torch.Tensor], dim: int) -> torch.Tensor:
    require(all(tensor.shape == tensors[0].shape for tensor in tensors))
    return torch.cat([tensor.unsqueeze(dim) for tensor in tensors], dim)


def _stack(tensors: list[torch.Tensor], dim: int) -> torch.Tensor:
    """Joins first and then splits the dimension, as CPU does, which keeps the memory format."""
    sizes = tensors[0].shape
    rank = len(sizes)
    index = dim if dim >= 0 else dim + rank + 1
    if not 0 <= index < rank or any(tensor.shape != sizes for tensor in tensors):
        return _join_unsqueezed(tensors, dim)
    return torch.cat(tensors, index).view(*sizes[:index], len(tensors), *sizes[index:])


def _some_tensors(tensors: SymTensors) -> SymBool:
    return tensors.len() > 0


def definitions() -> list[Definition]:
    """Every definition."""
    return [
        decomposition("cat cat.out", "cat", results="out", casts="TypeError"),
        decomposition("stack", _stack, condition=_some_tensors),
        decomposition(
            "stack.out _stack _stack.out",
            _join_unsqueezed,
            condition=_some_tensors,
            casts="TypeError",
        ),
    ]
