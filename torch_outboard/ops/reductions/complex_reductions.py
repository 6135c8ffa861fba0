"""Norms, variances and standard deviations of complex values, computed from real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import COMPLEX, Definition
from torch_outboard.ops.requirements import of_dtype


def _variance(
    self: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
) -> Tensor:
    parts = torch.view_as_real(self)
    first = torch.var(parts.select(-1, 0), dim, correction=correction, keepdim=keepdim)
    return first + torch.var(parts.select(-1, 1), dim, correction=correction, keepdim=keepdim)


def _deviation(
    self: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
) -> Tensor:
    return torch.sqrt(_variance(self, dim, correction, keepdim))


def _and_mean(spread: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    def body(
        self: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
    ) -> tuple[Tensor, Tensor]:
        return spread(self, dim, correction, keepdim), torch.mean(self, dim, keepdim)

    return body


def _norm(
    self: Tensor, ord: float, dim: list[int] | None, keepdim: bool, dtype: torch.dtype | None
) -> Tensor:
    values = torch.abs(self if dtype is None else self.to(dtype))
    norm: Tensor = torch.linalg.vector_norm(values, ord, dim, keepdim)
    return norm


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    bodies: dict[str, Callable[..., Any]] = {
        "var.correction var.correction_out": _variance,
        "std.correction std.correction_out": _deviation,
        "var_mean.correction var_mean.correction_out": _and_mean(_variance),
        "std_mean.correction std_mean.correction_out": _and_mean(_deviation),
    }
    return [
        # `dtype` is the elements' dtype; PyTorch raises if it is not complex.
        decomposition(
            "linalg_vector_norm linalg_vector_norm.out",
            _norm,
            dtypes=COMPLEX,
            requires={"dtype": of_dtype(*COMPLEX)},
        ),
        *(decomposition(overloads, body, dtypes=COMPLEX) for overloads, body in bodies.items()),
    ]
