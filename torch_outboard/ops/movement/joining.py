"""Joining tensors."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import Row

FAMILY: dict[str, Any] = {"family": "movement"}


def rows() -> list[Row]:
    """Every row."""
    return [
        composed(
            "cat cat.out",
            """
            at = 0
            for tensor in tensors:
                # An empty tensor of one dimension joins with anything.
                if tensor.dim() != 1 or tensor.size(0) != 0:
                    n = tensor.size(dim)
                    out.narrow(dim, at, n).copy_(tensor)
                    at += n
            """,
            results="out",
            meta="aten::cat",
            casts="TypeError",
            **FAMILY,
        ),
        composed(
            "stack stack.out _stack _stack.out",
            """
            parts: List[Tensor] = []
            for tensor in tensors:
                parts.append(tensor.unsqueeze(dim))
            return torch.cat(parts, dim)
            """,
            casts="TypeError",
            **FAMILY,
        ),
    ]
