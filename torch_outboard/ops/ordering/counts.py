"""Counts of values: histograms in one and several dimensions, and comparisons of whole tensors."""

import math
import sys
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, INTEGERS, WIDE, Definition

MOST = 2**63 - 1  # of int64


def _bincount(self: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    require(self.dim() == 1 and minlength >= 0)
    require(weights is None or weights.shape == self.shape)
    n = minlength
    if self.numel() > 0:
        require(self.min().item() >= 0)
        n = max(n, int(self.max().item()) + 1)
        require(n <= MOST)
    indices = self.to(torch.int64)
    if weights is None:
        amounts = torch.ones_like(indices)
    else:
        amounts = weights.to(torch.float32 if weights.dtype == torch.float32 else torch.float64)
    out = torch.zeros([n], dtype=amounts.dtype, device=self.device)
    return out.scatter_add_(0, indices, amounts)


def _histc(self: Tensor, bins: int, min_: float, max_: float) -> Tensor:
    x = self.reshape(-1)
    low, high = float(min_), float(max_)
    require(bins > 0 and low <= high and high - low <= sys.float_info.max)
    if low == high and x.numel() > 0:
        low, high = float(x.amin().item()), float(x.amax().item())
        require(math.isfinite(low) and math.isfinite(high))
    if low == high:
        low -= 1
        high += 1
    out = torch.zeros([bins], dtype=self.dtype, device=self.device)
    indices = ((x - low) * bins / (high - low)).to(torch.int64).clamp(0, bins - 1)
    inside = torch.logical_and(x >= low, x <= high)
    return out.scatter_add_(0, torch.where(inside, indices, 0), inside.to(self.dtype))


def _equal(self: Tensor, other: Tensor) -> bool:
    if self.shape != other.shape:
        return False
    return self.numel() == 0 or bool((self == other).all().item())


# ---- Histograms of points of one or more dimensions, by the edges of bins


def _outer_edges(
    points: Tensor, dimensions: int, given: list[float] | None
) -> Iterator[tuple[float, float]]:
    """The outer edges of each dimension of points of shape (..., dimensions)."""
    lows, highs = [0.0] * dimensions, [1.0] * dimensions
    if given is not None:
        lows, highs = given[::2], given[1::2]
    elif points.numel() > 0:
        points = points.reshape(-1, dimensions)
        lows, highs = points.amin(0).tolist(), points.amax(0).tolist()
    for low, high in zip(lows, highs, strict=True):
        require(low <= high and high - low < float("inf"))
        yield (low - 0.5, high + 0.5) if low == high else (low, high)


def _count_points(
    self: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    for edge in edges:
        require(edge.dim() == 1 and edge.numel() > 1 and edge.dtype == self.dtype)
    points = self.reshape(-1, len(edges))
    sizes = [edge.numel() - 1 for edge in edges]
    index, inside = None, None
    for d, (edge, n) in enumerate(zip(edges, sizes, strict=True)):
        # The last bin of a dimension includes both edges.
        x = points[:, d].contiguous()
        at = torch.bucketize(x, edge, right=True) - 1
        at = torch.where(x == edge[n], n - 1, at)
        here = torch.logical_and(at >= 0, at < n)
        index = at if index is None else index * n + at
        inside = here if inside is None else torch.logical_and(inside, here)
    assert index is not None
    assert inside is not None
    amounts = inside.to(self.dtype)
    if weight is not None:
        amounts = torch.where(inside, weight.reshape(-1), 0)
    hist = torch.zeros([math.prod(sizes)], dtype=self.dtype, device=self.device)
    hist = hist.scatter_add_(0, torch.where(inside, index, 0), amounts).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            shape = [1] * len(sizes)
            shape[d] = sizes[d]
            hist = hist / (edge[1:] - edge[:-1]).reshape(shape)
    return hist


def _bin_edges(self: Tensor, bins: list[int], range_: list[float] | None) -> list[Tensor]:
    require(len(bins) > 0 and min(bins) > 0)
    require(range_ is None or len(range_) == 2 * len(bins))
    return [
        torch.linspace(low, high, n + 1, dtype=self.dtype, device=self.device)
        for n, (low, high) in zip(bins, _outer_edges(self, len(bins), range_), strict=True)
    ]


def _has_points(self: Tensor, dimensions: int, weight: Tensor | None) -> bool:
    return (
        self.dim() >= 2 and self.size(-1) == dimensions and _weighs(weight, self, self.shape[:-1])
    )


def _weighs(weight: Tensor | None, self: Tensor, shape: torch.Size) -> bool:
    return weight is None or (weight.shape == shape and weight.dtype == self.dtype)


def _from_bin_counts(
    self: Tensor, bins: list[int], range_: list[float] | None, weight: Tensor | None, density: bool
) -> Tensor:
    require(_has_points(self, len(bins), weight))
    edges = torch._histogramdd_bin_edges(self, bins, range=range_, weight=weight, density=density)
    return _count_points(self, edges, weight, density)


def _from_bin_tensors(
    self: Tensor, bins: list[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    require(len(bins) > 0 and _has_points(self, len(bins), weight))
    return _count_points(self, bins, weight, density)


def _histogram_of_bins(
    self: Tensor, bins: int, range_: list[float] | None, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    require(_weighs(weight, self, self.shape))
    edges = _bin_edges(self, [bins], range_)
    return _count_points(self, edges, weight, density), edges[0]


def _histogram_of_edges(
    self: Tensor, bins: Tensor, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    require(_weighs(weight, self, self.shape))
    return _count_points(self, [bins], weight, density), bins.clone()


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        decomposition("bincount", _bincount, dtypes=INTEGERS),
        decomposition("histc histc.out", _histc, dtypes=FLOATS),
        decomposition(
            "histogram.bin_ct histogram.bin_ct_out",
            _histogram_of_bins,
            dtypes=WIDE,
        ),
        decomposition(
            "histogram.bins_tensor histogram.bins_tensor_out",
            _histogram_of_edges,
            dtypes=FLOATS,
        ),
        decomposition(
            "count_nonzero.dim_IntList", lambda self, dim: (self != 0).sum(dim, dtype=torch.int64)
        ),
        decomposition("equal", _equal),
        decomposition(
            "_histogramdd_bin_edges",
            _bin_edges,
            dtypes=WIDE,
            condition=lambda self, bins: (self.dim() >= 2) & (self.size(-1) == bins.len()),
        ),
        decomposition("_histogramdd_from_bin_cts", _from_bin_counts, dtypes=WIDE),
        decomposition("_histogramdd_from_bin_tensors", _from_bin_tensors, dtypes=WIDE),
    ]
