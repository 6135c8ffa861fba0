"""Weights as direction and length per slice (torch.nn.utils.weight_norm), and the gradient."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import FLOATS, Row

_HELPERS = """
def other_dims(x: Tensor, dim: int) -> List[int]:
    # Than the first one or the last one.
    first = 1 if dim == 0 else 0
    return [first + d for d in range(x.dim() - 1)]
"""


def rows() -> list[Row]:
    """Every row."""
    common: dict[str, Any] = {"helpers": _HELPERS, "family": "normalization"}
    slices = "dims({0}) > 1 && (dim == 0 || dim == dims({0}) - 1) && numel({0}) > 0"
    one_each = (
        "dims({1}) == dims({0}) && numel({1}) == size({0}, dim) && size({1}, dim) == numel({1})"
    )
    return [
        composed(
            "_weight_norm_interface",
            """
            assert v.dtype == g.dtype
            wide = torch.float64 if v.dtype == torch.float64 else torch.float32
            norm = torch.linalg_vector_norm(v, 2, other_dims(v, dim), True, dtype=wide)
            return (v * (g / norm)).to(v.dtype), norm
            """,
            dtypes=FLOATS,
            conditions=[slices.format("v"), one_each.format("v", "g")],
            **common,
        ),
        composed(
            "_weight_norm_interface_backward",
            """
            assert grad_w.dtype == saved_v.dtype and saved_v.dtype == saved_g.dtype
            wide = torch.float64 if saved_v.dtype == torch.float64 else torch.float32
            assert saved_norms.dtype == wide
            v = saved_v.to(wide)
            grad = grad_w.to(wide)
            along = (grad * v).sum(other_dims(v, dim), True) / saved_norms
            grad_v = (grad - v * (along / saved_norms)) * (saved_g / saved_norms)
            return grad_v.to(saved_v.dtype), along.to(saved_g.dtype)
            """,
            dtypes=(torch.bfloat16, torch.float32, torch.float64),
            conditions=[
                slices.format("saved_v"),
                one_each.format("saved_v", "saved_g"),
                one_each.format("saved_v", "saved_norms"),
                "sizes(grad_w) == sizes(saved_v)",
            ],
            **common,
        ),
    ]
