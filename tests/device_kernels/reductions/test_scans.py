"""Scans by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import compare

SCANS = [torch.cumsum, torch.logcumsumexp, torch.cummax, torch.cummin]


@pytest.mark.parametrize("scan", SCANS)
def test_long_rows_in_blocks(device, scan):
    compare(device, lambda x: scan(x, 1), torch.randn(2, 9001))


@pytest.mark.parametrize("scan", [torch.cumsum, torch.cumprod, torch.cummax])
@pytest.mark.parametrize("sizes", [(300, 100), (33, 5003), (200, 70, 3)])
def test_many_rows_at_once(device, scan, sizes):
    # Products stay near 1.
    values = torch.randn(sizes) if scan is not torch.cumprod else 1 + torch.randn(sizes) / 100
    compare(device, lambda x: scan(x, 1), values)


def test_a_million_elements_keep_their_precision(device):
    compare(device, lambda x: torch.cumsum(x, 0), torch.rand(1_000_000))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64, torch.float32])
def test_out_of_another_dtype(device, dtype):
    for values in (torch.randn(3, 40) * 5, torch.randn(3, 40, dtype=torch.complex64)):
        compare(
            device,
            lambda x, out: (torch.cumsum(x, 1, out=out), torch.cumprod(x[:, :9], 0)),
            values,
            torch.empty(3, 40, dtype=dtype),
        )
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        torch.cumsum(torch.ones(3, device=device), 0, out=torch.ones(3, device=device).bool())


@pytest.mark.parametrize(("sizes", "dim"), [((5, 37), -1), ((3, 300, 2), 1), ((), 0)])
def test_complex_logcumsumexp(device, sizes, dim):
    """Angles are the sums along the way, as on CPU, also beyond a turn."""
    values = 4 * torch.randn(sizes, dtype=torch.complex64)
    compare(device, lambda x: x.logcumsumexp(dim), values)
    if values.dim() == 2:
        values[0, 3], values[1, :4] = torch.nan, -torch.inf
        compare(device, lambda x: x.logcumsumexp(dim), values)


def test_nan_and_infinity(device):
    values = torch.randn(4, 10)
    values[0, [3, 6]] = torch.nan
    values[1, 4] = torch.inf
    values[2, :] = -torch.inf
    for scan in SCANS:
        compare(device, lambda x, scan=scan: scan(x, 1), values)
