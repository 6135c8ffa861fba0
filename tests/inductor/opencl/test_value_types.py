"""Floats of 8 bits in kernels of compiled graphs: every byte, and what values are rounded to."""

import math

import pytest
import torch

from torch_outboard.inductor.opencl.value_types import FORMATS

pytestmark = pytest.mark.by_turns(3)

DTYPES = [known.dtype for known in FORMATS.values()]


def values() -> torch.Tensor:
    """Float32 of any bits, of the formats' sizes, halves between numbers, and the ends."""
    any_bits = torch.randint(-(1 << 31), 1 << 31, (1 << 16,)).to(torch.int32).view(torch.float32)
    sizes = torch.randn(1 << 16) * torch.randint(-30, 20, (1 << 16,)).exp2()
    ties = (torch.arange(1 << 12).to(torch.int32) << 19).view(torch.float32)
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -1e30, 448, 464, 470, 480, 240, 248]
    return torch.cat([any_bits, sizes, ties, torch.tensor(ends)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_and_rounding_are_those_of_cpu(dtype: torch.dtype, device: torch.device):
    def function(x: torch.Tensor, every: torch.Tensor) -> tuple[torch.Tensor, ...]:
        small = (x * 1).to(dtype)
        # Kept in the kernel, every other one, and added up.
        kept = small.float(), (x[::2] * 1).to(dtype).bfloat16(), small.view(torch.uint8) + 1
        return small, *kept, every.float() * 1

    x, every = values(), torch.arange(256, dtype=torch.uint8).view(dtype)
    actual = torch.compile(function)(x.to(device), every.to(device))
    for want, got in zip(function(x, every), actual, strict=True):
        assert got.dtype == want.dtype
        if want.dtype == dtype:
            want, got = want.view(torch.uint8), got.view(torch.uint8)
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)


def test_quantized_weights_are_read_in_fused_kernels(device: torch.device):
    def function(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, weight.float() * scale) + weight.float().sum(-1)

    given = torch.randn(5, 70), torch.randn(9, 70).to(torch.float8_e4m3fn), torch.rand(9, 1)
    actual = torch.compile(function)(*(x.to(device) for x in given))
    torch.testing.assert_close(actual.cpu(), function(*given), rtol=1e-4, atol=1e-4)


def test_scaled_products(device: torch.device):
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scale = torch.ones((), device=x.device)
        small = (x * 2).to(torch.float8_e4m3fn)
        product = torch._scaled_mm(
            small, y.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16
        )
        return product.float().relu() + 1

    x, y = torch.randn(32, 64), torch.randn(16, 64).to(torch.float8_e4m3fn)
    actual = torch.compile(function)(x.to(device), y.to(device))
    torch.testing.assert_close(actual.cpu(), function(x, y), rtol=1e-2, atol=1e-1)
