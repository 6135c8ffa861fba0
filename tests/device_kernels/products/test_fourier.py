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


# Powers of two, the other radices, a small prime as a pass, and Bluestein's algorithm.
@pytest.mark.parametrize("n", [1, 2, 32, 1024, 45, 49, 122, 67, 211])
def test_lengths(device, n):
    x = torch.randn(3, n, dtype=torch.complex64)
    check(device, torch.fft.fft, x, rtol=1e-4, atol=1e-5 * n**0.5)
    check(device, torch.fft.ifft, x)
    check(device, torch.fft.rfft, x.real.contiguous(), rtol=1e-4, atol=1e-5 * n**0.5)
    check(device, lambda t: torch.fft.irfft(t, n), x[:, : n // 2 + 1].contiguous())


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("dims", [(0,), (1, 3), (3, 2), (0, 1, 2, 3)])
def test_dimensions_and_norms(device, dims, norm):
    x = torch.randn(4, 6, 5, 7, dtype=torch.complex64)
    close = {"rtol": 1e-4, "atol": 1e-4}
    for transform in (torch.fft.fftn, torch.fft.ifftn, torch.fft.irfftn):
        check(device, lambda t, f=transform: f(t, dim=dims, norm=norm), x, **close)
        check(
            device, lambda t, f=transform: f(t.permute(3, 1, 0, 2), dim=dims, norm=norm), x, **close
        )
    for transform in (torch.fft.rfftn, torch.fft.fftn):
        check(
            device, lambda t, f=transform: f(t, dim=dims, norm=norm), x.real.contiguous(), **close
        )


def test_given_outputs(device):
    x = torch.randn(5, 12, dtype=torch.complex64)
    out = torch.empty(12, 5, dtype=torch.complex64, device=device).t()
    torch.fft.fft(x.to(device), out=out)
    assert_close(out.cpu(), torch.fft.fft(x))
    assert out.stride() == (1, 5)


def test_gradients(device):
    x = torch.randn(4, 10)
    gradients = []
    for leaf in (x.clone().requires_grad_(), x.to(device).requires_grad_()):
        (torch.fft.irfft(torch.fft.rfft(leaf) * 2, 9) ** 2).sum().backward()
        gradients.append(leaf.grad.cpu())
    assert_close(gradients[1], gradients[0])


def test_double_precision(device):
    x = torch.randn(3, 67, 60, dtype=torch.complex128)
    check(device, torch.fft.fft2, x, rtol=0, atol=1e-12)


def test_wrong_dimensions_raise(device):
    with pytest.raises(RuntimeError):
        torch.fft.fftn(torch.randn(3, 4, device=device), dim=(1, 1))
    with pytest.raises(IndexError):
        torch.fft.fft(torch.randn(3, 4, device=device), dim=2)
