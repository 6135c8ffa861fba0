"""Distances, cross products, gated linear units and segments by device kernels, against CPU."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback


def check(device, operator, *tensors, native="", **tolerances):
    """Values and gradients; operators whose names contain `native` must have launched kernels."""
    results = []
    for place in ("cpu", device):
        leaves = [t.detach().to(place).requires_grad_() for t in tensors]
        with fallback.report() as report:
            out = operator(*leaves)
            weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape)
            out.backward(weights.to(place))
        results.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    for expected, result in zip(*results, strict=True):
        assert_close(result, expected, equal_nan=True, **tolerances)
    seen = {op: way for op, way in ways_of(report).items() if native in op}
    assert seen, report.rows
    assert set(seen.values()) == {"device"}


@pytest.mark.parametrize("p", [0.0, 2.0, 3.5, math.inf])
def test_distances(device, p):
    x, y = torch.randn(2, 1, 5, 4), torch.randn(3, 19, 4)
    check(
        device,
        lambda a, b: torch.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist"),
        x,
        y,
        native="_cdist",
    )
    check(device, lambda a: torch.nn.functional.pdist(a, p), torch.randn(7, 3), native="_pdist")


def test_pairs_of_many_rows(device):
    x = torch.randn(700, 1)
    assert_close(torch.nn.functional.pdist(x.to(device)).cpu(), torch.nn.functional.pdist(x))


def test_cross_products_broadcast(device):
    x, y = torch.randn(4, 3, 5), torch.randn(1, 3, 5)
    check(device, lambda a, b: torch.linalg.cross(a, b, dim=1), x, y, native="linalg_cross")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, -1])
def test_gated_linear_units(device, dim, dtype):
    x = torch.randn(6, 3, 4).to(dtype)
    # CPU rounds the gate to bfloat16 before it multiplies.
    close = {"rtol": 0.016, "atol": 0.03} if dtype == torch.bfloat16 else {}
    check(device, lambda a: torch.nn.functional.glu(a, dim), x, native="glu", **close)


@pytest.mark.parametrize("reduce", ["mean", "max", "prod"])
def test_segments(device, reduce):
    data = torch.randint(-2, 3, (2, 7, 3)).float()
    offsets = torch.tensor([[0, 2, 2, 7], [0, 1, 4, 7]])
    lengths = offsets.diff()
    check(
        device,
        lambda t: torch.segment_reduce(t, reduce, offsets=offsets.to(t.device), axis=1),
        data,
        native="segment_reduce",
    )
    check(
        device,
        lambda t: torch.segment_reduce(
            t, reduce, lengths=lengths.to(t.device), axis=1, unsafe=True, initial=2
        ),
        data,
        native="segment_reduce",
    )
    with fallback.report() as report:
        checked = torch.segment_reduce(data.to(device), reduce, lengths=lengths.to(device), axis=1)
    expected = torch.segment_reduce(data, reduce, lengths=lengths, axis=1)
    assert_close(checked.cpu(), expected, equal_nan=True)
    assert {row.way for row in report.rows} == {"device"}


def test_wrong_segments_raise(device):
    with pytest.raises(RuntimeError, match="sum to data"):
        torch.segment_reduce(
            torch.ones(4, device=device), "sum", lengths=torch.tensor([1, 2], device=device)
        )
