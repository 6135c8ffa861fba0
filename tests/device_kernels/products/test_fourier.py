"""Fourier transforms by device kernels, against CPU."""

import pytest
import torch
from torch.testing import assert_close

from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback


def check(device, transform, x, **tolerances):
    with fallback.report() as report:
        result = transform(x.to(device))
    expected = transform(x)
    assert_close(result.cpu(), expected, **tolerances)
    assert result.stride() == expected.stride()
    assert {way for op, way in ways_of(report).items() if "_fft" in op} == {"device"}


# The other radices, powers of two, a small prime as a pass, and Bluestein's algorithm.
@pytest.mark.parametrize("n", [45, 1, 2, 32, 1024, 49, 122, 67, 211])
def test_lengths(device, n):
    x = torch.randn(3, n, dtype=torch.complex64)
    check(device, torch.fft.fft, x, rtol=1e-4, atol=1e-5 * n**0.5)
    check(device, torch.fft.ifft, x)
    check(device, torch.fft.rfft, x.real.contiguous(), rtol=1e-4, atol=1e-5 * n**0.5)
    check(device, lambda t: torch.fft.irfft(t, n), x[:, : n // 2 + 1].contiguous())


def test_double_precision(device):
    x = torch.randn(3, 67, 60, dtype=torch.complex128)
    check(device, torch.fft.fft2, x, rtol=0, atol=1e-12)
