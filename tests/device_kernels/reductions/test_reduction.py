"""Reductions against CPU: layouts, sizes around its limits, NaN, ties; and scans."""

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu, compare

SHAPES = [(3,), (7, 33), (4, 300, 5), (2, 70, 67), (20_000,)]


@pytest.mark.parametrize("reduce", [torch.sum, torch.max, torch.var])
def test_dimensions(device, reduce):
    for shape in SHAPES:
        for dim in range(len(shape)):
            assert_as_on_cpu(device, lambda x, d=dim: reduce(x, dim=d), torch.randn(shape))


@pytest.mark.parametrize("reduce", [torch.argmax, torch.sum, torch.std, torch.prod])
def test_whole(device, reduce):
    for count in (2, 15, 4095, 4097, 300_001):
        assert_as_on_cpu(device, reduce, torch.rand(count) * 0.02 + 0.99)


def test_strided_and_several_dimensions(device):
    for reduce in (
        lambda x: x.sum((0, 2)),
        lambda x: x.permute(3, 0, 2, 1).sum((1, 3)),
        lambda x: x[:, ::3, 1:, ::2].sum((1, 3), keepdim=True),
        lambda x: x[1:, :, :, 3].transpose(0, 2).argmax(),
        lambda x: x.expand(3, 6, 10, 9, 20).sum(0),
        lambda x: torch.var_mean(x, (0, 3)),
    ):
        assert_as_on_cpu(device, reduce, torch.randn(6, 10, 9, 20))


# Columns in tiles of a GPU's group: narrow, wide, and with a rest, over one dimension or several.
@pytest.mark.parametrize(
    ("sizes", "dim"),
    [((5000, 4), 0), ((300, 131), 0), ((9, 700), 0), ((2, 900, 33), (0, 1)), ((3, 400, 6), 1)],
)
def test_columns(device, sizes, dim):
    x = torch.randint(-9, 9, sizes).float()
    assert_as_on_cpu(device, lambda x: (x.sum(dim), x.amax(dim)), x)
    assert_as_on_cpu(device, lambda x: x.to(torch.complex64).sum(dim), x)
    if isinstance(dim, int):
        assert_as_on_cpu(device, lambda x: x.argmax(dim), torch.randn(sizes))


def test_nan_infinity_and_ties(device):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1, nan, 3, nan] * 5, [inf, -inf, inf, 0] * 5, [-inf] * 20, [2, 2, 1, 1] * 5])
    for dim in (0, 1):
        for reduce in (torch.max, torch.min, torch.amax, torch.nansum, torch.var):
            assert_as_on_cpu(device, lambda x, r=reduce, d=dim: r(x, dim=d), x)


def test_every_index_of_a_row(device):
    x = torch.eye(300, 523)
    assert_as_on_cpu(device, lambda x: (x.argmax(1), (-x).argmin(1), x.max(1)), x)
    assert_as_on_cpu(device, lambda x: (x.argmax(0), (-x).argmin(0), x.max(0)), x.t())


def test_long_sums_stay_accurate(device):
    # One running sum would be wrong by 4 %.
    x = torch.full((1 << 22,), 0.1)
    wanted = float(x.double().sum())
    assert abs(float(x.to(device).sum()) - wanted) < 2e-6 * wanted


# ---- scans


SCANS = [torch.cumsum, torch.logcumsumexp, torch.cummax, torch.cummin]


# A few rows in blocks, and many rows at once.
@pytest.mark.parametrize("scan", [*SCANS, torch.cumprod])
@pytest.mark.parametrize("sizes", [(2, 9001), (300, 100), (33, 5003), (200, 70, 3)])
def test_scans(device, scan, sizes):
    # Products stay near 1.
    values = torch.randn(sizes) if scan is not torch.cumprod else 1 + torch.randn(sizes) / 100
    compare(device, lambda x: scan(x, 1), values)


def test_sums_along_a_million_elements_keep_their_precision(device):
    compare(device, lambda x: torch.cumsum(x, 0), torch.rand(1_000_000))


@pytest.mark.parametrize(("sizes", "dim"), [((5, 37), -1), ((3, 300, 2), 1), ((), 0)])
def test_complex_logcumsumexp(device, sizes, dim):
    """Angles are the sums along the way, as on CPU, also beyond a turn."""
    values = 4 * torch.randn(sizes, dtype=torch.complex64)
    compare(device, lambda x: x.logcumsumexp(dim), values)
    if values.dim() == 2:
        values[0, 3], values[1, :4] = torch.nan, -torch.inf
        compare(device, lambda x: x.logcumsumexp(dim), values)


def test_scans_of_nan_and_infinity(device):
    values = torch.randn(4, 10)
    values[0, [3, 6]] = torch.nan
    values[1, 4] = torch.inf
    values[2, :] = -torch.inf
    for scan in SCANS:
        compare(device, lambda x, scan=scan: scan(x, 1), values)
