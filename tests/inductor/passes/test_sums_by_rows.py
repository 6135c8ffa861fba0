"""Sums over images and places."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import check, checked_code
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.by_turns(3)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-9), (torch.bfloat16, 1e-1)]
)
def test_gradients_of_a_bias(dtype: torch.dtype, tolerance: float, device: torch.device):
    """The gradient of the convolution's result is computed, not given."""

    def gradients(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = F.conv2d(*given, padding=1).sin()
        return torch.autograd.grad(result.square().sum(), given)

    shapes = (3, 3, 16, 16), (64, 3, 3, 3), (64,)
    given = [(torch.randn(shape) * 0.2).to(dtype).requires_grad_() for shape in shapes]
    check(gradients, *given, device=device, tolerance=tolerance)


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


def test_sums_of_other_dtypes(device: torch.device):
    """One of whole numbers drops fractions first; halves are added in single precision."""

    def function(x, weight, halves, other):
        scaled, more = x * 1.5, halves + 1
        total = scaled.sum((0, 2, 3), dtype=torch.int64)
        return F.conv2d(scaled, weight), total, F.conv2d(more, other), more.sum((0, 2, 3))

    x, weight = torch.rand(4, 32, 16, 16) * 3, torch.randn(2, 32, 1, 1)
    halves, other = torch.rand(3, 32, 64, 64).half(), torch.randn(2, 32, 1, 1).half()
    given = x, weight, halves, other
    results = torch.compile(function)(*(value.to(device) for value in given))
    _, total, _, sums = (value.cpu() for value in results)
    assert torch.equal(total, function(*given)[1])
    exact = (halves.double() + 1).half().double().sum((0, 2, 3))
    torch.testing.assert_close(sums.double(), exact, rtol=1e-3, atol=0)
