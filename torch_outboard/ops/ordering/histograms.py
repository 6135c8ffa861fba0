"""Histograms in several dimensions: of rows of points, by the edges of bins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import Definition
from torch_outboard.ops.symbolic import (
    SymBool,
    SymFloat,
    SymInts,
    SymList,
    SymTensor,
    fits,
    given,
    where,
)

DTYPES = (torch.float32, torch.float64)


def _outer_edges(
    points: Tensor, bins: int, given: list[float] | None
) -> Iterator[tuple[float, float]]:
    """The outer edges of each dimension of points of shape (..., bins)."""
    lows, highs = [0.0] * bins, [1.0] * bins
    if given is not None:
        lows, highs = given[::2], given[1::2]
    elif points.numel() > 0:
        points = points.reshape(-1, bins)
        lows, highs = points.amin(0).tolist(), points.amax(0).tolist()
    for low, high in zip(lows, highs, strict=True):
        require(low <= high and high - low < float("inf"))
        yield (low - 0.5, high + 0.5) if low == high else (low, high)


def _count_points(
    self: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    points = self.reshape(-1, len(edges))
    sizes = [edge.numel() - 1 for edge in edges]
    index = torch.zeros([points.size(0)], dtype=torch.int64, device=self.device)
    inside = torch.ones([points.size(0)], dtype=torch.bool, device=self.device)
    for d, (edge, n) in enumerate(zip(edges, sizes, strict=True)):
        # The last bin of a dimension includes both edges.
        x = points[:, d].contiguous()
        place = torch.bucketize(x, edge, right=True) - 1
        place = torch.where(x == edge[n], n - 1, place)
        inside = torch.logical_and(inside, torch.logical_and(place >= 0, place < n))
        index = index * n + place
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
    return [
        torch.linspace(low, high, n + 1, dtype=self.dtype, device=self.device)
        for n, (low, high) in zip(bins, _outer_edges(self, len(bins), range_), strict=True)
    ]


def _from_bin_counts(
    self: Tensor,
    bins: list[int],
    range_: list[float] | None,
    weight: Tensor | None,
    density: bool,
) -> Tensor:
    edges = torch._histogramdd_bin_edges(self, bins, range=range_, weight=weight, density=density)
    require(weight is None or weight.dtype == self.dtype)
    return _count_points(self, edges, weight, density)


def _from_bin_tensors(
    self: Tensor, bins: list[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    require(self.dim() >= 2 and len(bins) > 0 and self.size(-1) == len(bins))
    for edge in bins:
        require(edge.dim() == 1 and edge.numel() > 1 and edge.dtype == self.dtype)
    if weight is not None:
        require(weight.shape == self.shape[:-1] and weight.dtype == self.dtype)
    return _count_points(self, bins, weight, density)


def _bins_are_served(
    self: SymTensor, bins: SymInts, range: SymList[SymFloat], weight: SymTensor
) -> SymBool:
    has_points = (self.dim() >= 2) & (self.size(-1) == bins.len()) & (bins.len() > 0)
    has_pairs = where(given(range), range.len() == 2 * bins.len(), True)
    return has_points & fits(weight, self.shape[:-1]) & (bins.min() > 0) & has_pairs


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        decomposition(
            "_histogramdd_bin_edges", _bin_edges, dtypes=DTYPES, condition=_bins_are_served
        ),
        decomposition(
            "_histogramdd_from_bin_cts", _from_bin_counts, dtypes=DTYPES, condition=_bins_are_served
        ),
        decomposition("_histogramdd_from_bin_tensors", _from_bin_tensors, dtypes=DTYPES),
    ]
