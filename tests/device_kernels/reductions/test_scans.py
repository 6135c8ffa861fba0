"""Scans by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import compare, with_gradients

SCANS = [torch.cumsum, torch.logcumsumexp, torch.cummax, torch.cummin]


@pytest.mark.parametrize("scan", [*SCANS, torch.cumprod])
@pytest.mark.parametrize(("sizes", "dim"), [((5, 37), -1), ((3, 7, 70), 1), ((7,), 0)])
def test_scans_of_any_dimension(device, scan, sizes, dim):
    compare(device, lambda x: scan(x, dim), torch.randn(sizes))


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


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.bfloat16, torch.complex64])
def test_dtypes(device, dtype):
    values = torch.randint(0, 2, (6, 9)).to(dtype)
    compare(device, lambda x: (x.cumsum(1), x.cumprod(0)), values)
    if not dtype.is_complex:
        compare(device, lambda x: (*x.cummax(1), *x.cummin(0)), values)


def test_result_of_another_dtype(device):
    values = torch.randn(3, 40) * 5
    compare(device, lambda x: x.cumsum(1, dtype=torch.float64), values)
    compare(device, lambda x: x.cumsum(1, dtype=torch.int64), values)


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


def test_in_place_and_given_outputs(device):
    compare(device, lambda x: x.cumsum_(1), torch.randn(3, 5))
    compare(
        device,
        lambda x, out: torch.cumsum(x, 1, out=out.t()),
        torch.randn(3, 5),
        torch.empty(5, 3),
    )


@pytest.mark.slow
def test_gradients(device):
    values = (torch.rand(4, 6) + 0.5).requires_grad_()
    with_gradients(lambda x: torch.cumprod(x, 1))(values.detach().to(device).requires_grad_())
    wide = values.detach().double().to(device).requires_grad_()
    for scan in (torch.cumsum, torch.cumprod, torch.logcumsumexp):
        assert torch.autograd.gradcheck(lambda x, scan=scan: scan(x, 1), wide)
    assert torch.autograd.gradcheck(lambda x: torch.cummax(x, 1).values, wide)
    both = torch.complex(wide, wide.flip(0)).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: x.logcumsumexp(1), both)
