"""Fourier transforms by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import compare


# The other radices, powers of two, a small prime as a pass, and Bluestein's algorithm.
@pytest.mark.parametrize("n", [45, 1, 2, 32, 1024, 49, 122, 67, 211])
def test_lengths(device, n):
    x = torch.randn(3, n, dtype=torch.complex64)
    near = {"rtol": 1e-4, "atol": 1e-5 * n**0.5, "check_stride": True}
    compare(device, torch.fft.fft, x, **near)
    compare(device, torch.fft.ifft, x, check_stride=True)
    compare(device, torch.fft.rfft, x.real.contiguous(), **near)
    half = x[:, : n // 2 + 1].contiguous()
    compare(device, lambda t: torch.fft.irfft(t, n), half, check_stride=True)


def test_double_precision(device):
    x = torch.randn(3, 67, 60, dtype=torch.complex128)
    compare(device, torch.fft.fft2, x, rtol=0, atol=1e-12, check_stride=True)
