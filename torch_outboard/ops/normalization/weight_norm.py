"""Weights as direction and length per slice (torch.nn.utils.weight_norm), and the gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed, require
from torch_outboard.ops.row import FLOATS, Row


def _other_dims(x: Tensor, dim: int) -> list[int]:
    # Than the first one or the last one.
    first = 1 if dim == 0 else 0
    return [first + d for d in range(x.dim() - 1)]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _forward(v: Tensor, g: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    require(v.dtype == g.dtype)
    norm = torch.linalg.vector_norm(v, 2, _other_dims(v, dim), True, dtype=_wide(v.dtype))
    return (v * (g / norm)).to(v.dtype), norm


def _backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    wide = _wide(saved_v.dtype)
    require(grad_w.dtype == saved_v.dtype == saved_g.dtype and saved_norms.dtype == wide)
    v = saved_v.to(wide)
    grad = grad_w.to(wide)
    along = (grad * v).sum(_other_dims(v, dim), True) / saved_norms
    grad_v = (grad - v * (along / saved_norms)) * (saved_g / saved_norms)
    return grad_v.to(saved_v.dtype), along.to(saved_g.dtype)


def rows() -> list[Row]:
    """Every row."""
    slices = "dims({0}) > 1 && (dim == 0 || dim == dims({0}) - 1) && numel({0}) > 0"
    one_each = (
        "dims({1}) == dims({0}) && numel({1}) == size({0}, dim) && size({1}, dim) == numel({1})"
    )
    return [
        composed(
            "_weight_norm_interface",
            _forward,
            dtypes=FLOATS,
            conditions=[slices.format("v"), one_each.format("v", "g")],
            family="normalization",
        ),
        composed(
            "_weight_norm_interface_backward",
            _backward,
            dtypes=(torch.bfloat16, torch.float32, torch.float64),
            conditions=[
                slices.format("saved_v"),
                one_each.format("saved_v", "saved_g"),
                one_each.format("saved_v", "saved_norms"),
                "sizes(grad_w) == sizes(saved_v)",
            ],
            family="normalization",
        ),
    ]
