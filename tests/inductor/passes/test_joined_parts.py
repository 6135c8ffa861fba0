"""Gradients of parts of a tensor, each among zeros."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.inductor.support import check, check_sizes, checked_code
from torch_outboard.inductor.target import target_of

Function = Callable[[torch.Tensor], torch.Tensor]
PARTS: dict[str, Function] = {
    "all rows": lambda x: x[0].sin() + x[1].exp() * x[2] + x[3],
    "some rows": lambda x: x[1].sin() * x[3],
    "the last first": lambda x: x[-1].sin() * x[0],
    "columns": lambda x: x[:, :, :3].sin().sum(2) + x[:, :, 3:].exp().sum(2),
    "with a gap": lambda x: x[:, 1:2].sin().sum(1) + x[:, 4:].exp().sum(1),
    "overlapping": lambda x: x[:, 1:4].sin().sum(1) + x[:, 2:].exp().sum(1),
    "a row twice": lambda x: x[1].sin() + x[1].exp() * x[2],
    "beyond the ends": lambda x: x[-9:2].sin().sum(0) + x[2:99].exp().sum(0) + x[99:].sum(),
    "every second": lambda x: x[::2].sin().sum(0) + x[1::2].exp().sum(0),
    "along two dimensions": lambda x: x[0].sin().sum(0) + x[:, 2].exp().sum(0),
    "turned": lambda x: x[0].t().sin().sum(0) + x[1].exp().t().sum(0) + x[2].sum(),
}


def derivative(function: Function) -> Function:
    def compute(x: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(function(x * 2).square().sum(), x)
        return gradient

    return compute


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", [name for name in PARTS if name != "all rows"])
def test_values(name: str, device: torch.device):
    x = torch.randn(4, 6, 7, requires_grad=True)
    check(derivative(PARTS[name]), x, device=device, tolerance=1e-4)


def test_each_part_is_computed_for_its_rows(device: torch.device):
    x = torch.randn(4, 6, 7, requires_grad=True)
    code = checked_code(derivative(PARTS["all rows"]), x, device=device, tolerance=1e-4)
    if target_of(device).group > 1:
        pytest.skip("items of a GPU choose one by one")
    assert "if (tmp" in code


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_dtypes(dtype: torch.dtype, device: torch.device):
    x = (torch.randn(4, 6, 7) * 0.2).to(dtype).requires_grad_()
    tolerance = 1e-9 if dtype == torch.float64 else 2e-2
    check(derivative(PARTS["all rows"]), x, device=device, tolerance=tolerance)


@pytest.mark.by_turns(2)
def test_sizes_stay_open(device: torch.device):
    calls = [(torch.randn(4, 6, size, requires_grad=True),) for size in (3, 5, 8)]
    check_sizes(derivative(PARTS["all rows"]), *calls, device=device, tolerance=1e-4)
