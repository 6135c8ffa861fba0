"""Counts of values: histograms in one dimension, and comparisons of whole tensors."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, INTEGERS, Definition
from torch_outboard.ops.requirements import of_dtype_of
from torch_outboard.ops.symbolic import (
    SymBool,
    SymFloat,
    SymInt,
    SymList,
    SymTensor,
    fits,
    given,
    where,
)

MOST = 2**63 - 1  # of int64


def _bincount(self: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    n = minlength
    if self.numel() > 0:
        require(self.min().item() >= 0)
        n = max(n, int(self.max().item()) + 1)
        require(n <= MOST)
    places = self.to(torch.int64)
    if weights is None:
        amounts = torch.ones_like(places)
    else:
        amounts = weights.to(torch.float32 if weights.dtype == torch.float32 else torch.float64)
    out = torch.zeros([n], dtype=amounts.dtype, device=self.device)
    return out.scatter_add_(0, places, amounts)


def _histc(self: Tensor, bins: int, min_: float, max_: float) -> Tensor:
    x = self.reshape(-1)
    low, high = float(min_), float(max_)
    if low == high and x.numel() > 0:
        low, high = float(x.amin().item()), float(x.amax().item())
    if low == high:
        low -= 1
        high += 1
    out = torch.zeros([bins], dtype=self.dtype, device=self.device)
    places = ((x - low) * bins / (high - low)).to(torch.int64).clamp(0, bins - 1)
    inside = torch.logical_and(x >= low, x <= high)
    return out.scatter_add_(0, torch.where(inside, places, 0), inside.to(self.dtype))


def _between(
    self: Tensor, edges: Tensor, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    # The last bin includes both edges.
    x = self.reshape(-1)
    n = edges.numel() - 1
    places = torch.where(x == edges[n], n - 1, torch.bucketize(x, edges, right=True) - 1)
    inside = torch.logical_and(places >= 0, places < n)
    amounts = inside.to(x.dtype)
    if weight is not None:
        amounts = torch.where(inside, weight.reshape(-1), 0)
    hist = torch.zeros([n], dtype=x.dtype, device=x.device)
    hist.scatter_add_(0, torch.where(inside, places, 0), amounts)
    if density:
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return hist, edges


def _histogram_of_bins(
    self: Tensor, bins: int, range_: list[float] | None, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    low, high = 0.0, 1.0
    if range_ is not None:
        low, high = range_
    elif self.numel() > 0:
        low, high = float(self.amin().item()), float(self.amax().item())
    require(low <= high)
    if low == high:
        low -= 0.5
        high += 0.5
    edges = torch.linspace(low, high, bins + 1, dtype=self.dtype, device=self.device)
    return _between(self, edges, weight, density)


def _histogram_of_edges(
    self: Tensor, bins: Tensor, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    return _between(self, bins.clone(), weight, density)


def _equal(self: Tensor, other: Tensor) -> bool:
    if self.shape != other.shape:
        return False
    return self.numel() == 0 or bool((self == other).all().item())


def _counts_are_served(self: SymTensor, weights: SymTensor, minlength: SymInt) -> SymBool:
    return (self.dim() == 1) & (minlength >= 0) & fits(weights, self.shape)


def _ends_are_served(bins: SymInt, min: SymFloat, max: SymFloat) -> SymBool:
    return (bins > 0) & (min <= max) & (max - min <= sys.float_info.max)


def _range_is_served(
    self: SymTensor, bins: SymInt, range: SymList[SymFloat], weight: SymTensor
) -> SymBool:
    is_pair = where(given(range), range.len() == 2, True)
    return (bins > 0) & is_pair & fits(weight, self.shape)


def _edges_are_served(self: SymTensor, bins: SymTensor, weight: SymTensor) -> SymBool:
    return (bins.dim() == 1) & (bins.numel() > 1) & fits(weight, self.shape)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        decomposition("bincount", _bincount, dtypes=INTEGERS, condition=_counts_are_served),
        decomposition("histc histc.out", _histc, dtypes=FLOATS, condition=_ends_are_served),
        decomposition(
            "histogram.bin_ct histogram.bin_ct_out",
            _histogram_of_bins,
            dtypes=(torch.float32, torch.float64),
            requires={"weight": of_dtype_of("self")},
            condition=_range_is_served,
        ),
        decomposition(
            "histogram.bins_tensor histogram.bins_tensor_out",
            _histogram_of_edges,
            dtypes=FLOATS,
            requires={"bins": of_dtype_of("self"), "weight": of_dtype_of("self")},
            condition=_edges_are_served,
        ),
        decomposition(
            "count_nonzero.dim_IntList", lambda self, dim: (self != 0).sum(dim, dtype=torch.int64)
        ),
        decomposition("equal", _equal),
    ]
