"""Histograms in several dimensions: of rows of points, by the edges of bins."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import Row

_HELPERS = """
def outer_edges(
    self: Tensor, bins: List[int], range_: Optional[List[float]]
) -> Tuple[List[float], List[float]]:
    n = len(bins)
    lows = [0.0 for _ in range(n)]
    highs = [1.0 for _ in range(n)]
    if range_ is not None:
        lows = [range_[2 * d] for d in range(n)]
        highs = [range_[2 * d + 1] for d in range(n)]
    elif self.numel() > 0:
        points = self.reshape(-1, n)
        smallest = points.amin(0)
        largest = points.amax(0)
        lows = [float(smallest[d].item()) for d in range(n)]
        highs = [float(largest[d].item()) for d in range(n)]
    for d in range(n):
        assert lows[d] <= highs[d] and highs[d] - lows[d] < float("inf")
        if lows[d] == highs[d]:
            lows[d] -= 0.5
            highs[d] += 0.5
    return lows, highs

def count_points(
    self: Tensor, edges: List[Tensor], weight: Optional[Tensor], density: bool
) -> Tensor:
    # The last bin of a dimension has both its edges.
    points = self.reshape(-1, len(edges))
    sizes = [edge.numel() - 1 for edge in edges]
    index = torch.zeros([points.size(0)], dtype=torch.int64, device=self.device)
    inside = torch.ones([points.size(0)], dtype=torch.bool, device=self.device)
    bins = 1
    for d in range(len(edges)):
        n = sizes[d]
        x = points[:, d].contiguous()
        place = torch.bucketize(x, edges[d], right=True) - 1
        place = torch.where(x == edges[d][n], n - 1, place)
        inside = torch.logical_and(inside, torch.logical_and(place >= 0, place < n))
        index = index * n + place
        bins *= n
    amounts = inside.to(self.dtype)
    if weight is not None:
        amounts = torch.where(inside, weight.reshape(-1), 0)
    hist = torch.zeros([bins], dtype=self.dtype, device=self.device)
    hist = hist.scatter_add_(0, torch.where(inside, index, 0), amounts).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for d in range(len(edges)):
            shape = [1 for _ in sizes]
            shape[d] = sizes[d]
            hist = hist / (edges[d][1:] - edges[d][:-1]).reshape(shape)
    return hist
"""


def rows() -> list[Row]:
    """Every row."""
    common: dict[str, Any] = {
        "helpers": _HELPERS,
        "dtypes": (torch.float32, torch.float64),
        "family": "sorting",
    }
    shapes = [
        "dims(self) >= 2",
        "size(self, -1) == len(bins) && len(bins) > 0",
        "given(weight) ? sizes(weight) == sizes(self)[:-1] : 1",
    ]
    counted = [*shapes, "min_of(bins) > 0", "given(range) ? len(range) == 2 * len(bins) : 1"]
    return [
        composed(
            "_histogramdd_bin_edges",
            """
            lows, highs = outer_edges(self, bins, range)
            edges: List[Tensor] = []
            for d, n in enumerate(bins):
                edges.append(
                    torch.linspace(lows[d], highs[d], n + 1, dtype=self.dtype, device=self.device)
                )
            return edges
            """,
            conditions=counted,
            **common,
        ),
        composed(
            "_histogramdd_from_bin_cts",
            """
            edges = torch._histogramdd_bin_edges(
                self, bins, range=range, weight=weight, density=density
            )
            if weight is not None:
                assert weight.dtype == self.dtype
            return count_points(self, edges, weight, density)
            """,
            conditions=counted,
            **common,
        ),
        composed(
            "_histogramdd_from_bin_tensors",
            """
            assert self.dim() >= 2 and len(bins) > 0 and self.size(-1) == len(bins)
            for edge in bins:
                assert edge.dim() == 1 and edge.numel() > 1 and edge.dtype == self.dtype
            if weight is not None:
                assert weight.shape == self.shape[:-1] and weight.dtype == self.dtype
            return count_points(self, bins, weight, density)
            """,
            **common,
        ),
    ]
