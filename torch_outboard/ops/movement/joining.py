"""Joining tensors."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import Row

FAMILY: dict[str, Any] = {"family": "movement"}


def rows() -> list[Row]:
    """Every row."""
    return [
        composed(
            "cat cat.out",
            "cat",
            results="out",
            meta="aten::cat",
            casts="TypeError",
            **FAMILY,
        ),
        composed(
            "stack stack.out _stack _stack.out",
            lambda tensors, dim: torch.cat([tensor.unsqueeze(dim) for tensor in tensors], dim),
            conditions=["len(tensors) > 0"],
            casts="TypeError",
            **FAMILY,
        ),
    ]
