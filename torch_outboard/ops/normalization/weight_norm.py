"""Weights from direction and length per slice (torch.nn.utils.weight_norm), and the gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.symbolic import SymBool, SymInt, SymTensor


def _other_dims(x: Tensor, dim: int) -> list[int]:
    # All dimensions except the first or the last one.
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


def _has_slices(v: SymTensor, dim: SymInt) -> SymBool:
    return (v.dim() > 1) & ((dim == 0) | (dim == v.dim() - 1)) & (v.numel() > 0)


def _one_per_slice(x: SymTensor, v: SymTensor, dim: SymInt) -> SymBool:
    return (x.dim() == v.dim()) & (x.numel() == v.size(dim)) & (x.size(dim) == x.numel())


def _backward_is_served(
    grad_w: SymTensor,
    saved_v: SymTensor,
    saved_g: SymTensor,
    saved_norms: SymTensor,
    dim: SymInt,
) -> SymBool:
    return (
        _has_slices(saved_v, dim)
        & _one_per_slice(saved_g, saved_v, dim)
        & _one_per_slice(saved_norms, saved_v, dim)
        & (grad_w.shape == saved_v.shape)
    )


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        decomposition(
            "_weight_norm_interface",
            _forward,
            dtypes=FLOATS,
            condition=lambda v, g, dim: _has_slices(v, dim) & _one_per_slice(g, v, dim),
        ),
        decomposition(
            "_weight_norm_interface_backward",
            _backward,
            dtypes=(torch.bfloat16, torch.float32, torch.float64),
            condition=_backward_is_served,
        ),
    ]
