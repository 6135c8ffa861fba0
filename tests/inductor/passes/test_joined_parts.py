"""Gradients of parts of a tensor, each among zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from tests.inductor.support import check, check_sizes, checked_code
from torch_outboard.inductor.target import target_of

Function = Callable[[torch.Tensor], torch.Tensor]
# What the pass joins, and what it leaves.
JOINED: dict[str, Function] = {
    "the last first": lambda x: x[-1].sin() * x[0],
    "columns": lambda x: x[:, :, :3].sin().sum(2) + x[:, :, 3:].exp().sum(2),
    "with a gap": lambda x: x[:, 1:2].sin().sum(1) + x[:, 4:].exp().sum(1),
    "turned": lambda x: x[0].t().sin().sum(0) + x[1].exp().t().sum(0) + x[2].sum(),
}
LEFT: dict[str, Function] = {
    "overlapping": lambda x: x[:, 1:4].sin().sum(1) + x[:, 2:].exp().sum(1),
    "a row twice": lambda x: x[1].sin() + x[1].exp() * x[2],
    "beyond the ends": lambda x: x[-9:2].sin().sum(0) + x[2:99].exp().sum(0) + x[99:].sum(),
    "every second": lambda x: x[::2].sin().sum(0) + x[1::2].exp().sum(0),
    "along two dimensions": lambda x: x[0].sin().sum(0) + x[:, 2].exp().sum(0),
}


def all_rows(x: torch.Tensor) -> torch.Tensor:
    return x[0].sin() + x[1].exp() * x[2] + x[3]


def derivatives(functions: Sequence[Function]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Of each by an argument of its own."""

    def compute(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = [function(x * 2) for function, x in zip(functions, given, strict=True)]
        return torch.autograd.grad(sum(y.square().sum() for y in results), given)

    return compute


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("functions", [JOINED, LEFT], ids=["joined", "left"])
def test_values(functions: dict[str, Function], device: torch.device):
    given = [torch.randn(4, 6, 7, requires_grad=True) for _ in functions]
    check(derivatives([*functions.values()]), *given, device=device, tolerance=1e-4)


def test_each_part_is_computed_for_its_rows(device: torch.device):
    x = torch.randn(4, 6, 7, requires_grad=True)
    code = checked_code(derivatives([all_rows]), x, device=device, tolerance=1e-4)
    if target_of(device).group > 1:
        pytest.skip("items of a GPU choose one by one")
    assert "if (tmp" in code


@pytest.mark.by_turns(3)
def test_other_dtypes(device: torch.device):
    dtypes = (torch.float64, torch.float16)
    given = [(torch.randn(4, 6, 7) * 0.2).to(dtype).requires_grad_() for dtype in dtypes]
    check(derivatives([all_rows] * 2), *given, device=device, tolerance=2e-2)


@pytest.mark.by_turns(3)
def test_sizes_stay_open(device: torch.device):
    calls = [(torch.randn(4, 6, size, requires_grad=True),) for size in (3, 5, 8)]
    check_sizes(derivatives([all_rows]), *calls, device=device, tolerance=1e-4)
