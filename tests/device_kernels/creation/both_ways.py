"""What is drawn by the device, compared with what the host draws from the same seed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.testing import assert_close

from torch_outboard import fallback, ways

Drawn = Callable[[], torch.Tensor | tuple]


def by_both_ways(function: Drawn) -> list[list[torch.Tensor]]:
    """What `function` gives by the host and by the device, and numbers drawn afterwards."""
    results = []
    for way in ("host", "device"):
        with ways.way(way), fallback.report() as report:
            torch.manual_seed(5)
            value = function()
            leaves = list(value) if isinstance(value, tuple) else [value]
            leaves.append(torch.empty(3, device=leaves[0].device).uniform_())
        results.append([leaf.cpu() for leaf in leaves])
    assert {row.way for row in report.rows} == {"device"}, report.rows
    return results


def same(function: Drawn) -> torch.Tensor:
    """Asserts that both give the same bit by bit, with the same strides, and returns it."""
    host, device = by_both_ways(function)
    for theirs, ours in zip(host, device, strict=True):
        assert theirs.stride() == ours.stride()
        assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    return host[0]


def close(function: Drawn, **tolerances: float) -> None:
    for theirs, ours in zip(*by_both_ways(function), strict=True):
        assert_close(ours, theirs, **tolerances)
