"""Sums over images and places."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import check, checked_code
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.by_turns(3)


def gradients(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Of a convolution with a bias; the gradient of its result is computed, not given."""
    result = F.conv2d(x, weight, bias, padding=1).sin()
    return torch.autograd.grad(result.square().sum(), (x, weight, bias))


def given(images: int, size: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    shapes = (images, 3, size, size), (64, 3, 3, 3), (64,)
    return [(torch.randn(shape) * 0.2).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("images", [1, 2, 5])
@pytest.mark.parametrize("size", [3, 16])
def test_values(images: int, size: int, device: torch.device):
    check(gradients, *given(images, size), device=device, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(dtype: torch.dtype, device: torch.device):
    tolerance = 1e-9 if dtype == torch.float64 else 1e-1
    check(gradients, *given(3, 16, dtype), device=device, tolerance=tolerance)


def test_what_is_stored_is_not_read_again(device: torch.device):
    def function(x, weight):
        scaled = x.sin() * 2
        return F.conv2d(scaled, weight), scaled.sum((0, 2, 3)), scaled.sum((0, 2, 3), keepdim=True)

    given = torch.randn(4, 32, 16, 16), torch.randn(2, 32, 1, 1)
    code = checked_code(function, *given, device=device, tolerance=1e-4)
    target = target_of(device)
    if target.lanes == 1 or target.processors > 64:
        pytest.skip("the device has no vectors, or more processors than rows")
    first = code.split("program.kernel(")[1]
    if torch.__version__ < "2.13":
        pytest.skip("PyTorch fuses them from 2.13 on, where it merges loops before")
    assert "ob_sin_" in first
    assert "ob_fold_sum_" in first


def test_a_sum_of_whole_numbers_drops_fractions_first(device: torch.device):
    def function(x, weight):
        scaled = x * 1.5
        return F.conv2d(scaled, weight), scaled.sum((0, 2, 3), dtype=torch.int64)

    given = torch.rand(4, 32, 16, 16) * 3, torch.randn(2, 32, 1, 1)
    check(function, *given, device=device, tolerance=1e-4)


def test_small_numbers_are_added_in_single_precision(device: torch.device):
    """Also those of rows."""

    def function(x, weight):
        scaled = x + 1
        return F.conv2d(scaled, weight), scaled.sum((0, 2, 3))

    given = torch.rand(3, 32, 64, 64).half(), torch.randn(2, 32, 1, 1).half()
    _, total = torch.compile(function)(*(x.to(device) for x in given))
    exact = (given[0].double() + 1).half().double().sum((0, 2, 3))
    torch.testing.assert_close(total.cpu().double(), exact, rtol=1e-3, atol=0)
