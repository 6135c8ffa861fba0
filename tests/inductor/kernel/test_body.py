"""Work that is left out where a condition says so for all lanes."""

import re

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import check, checked_code, moved
from torch_outboard.inductor.target import target_of


def together(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Rows of one part, then of another."""
    return torch.cat([x.exp() + 1, F.pad(y.sin(), (0, 0, 1, 2))])


def test_rows_of_a_concatenation_are_computed_by_their_part_alone(device: torch.device):
    x, y = torch.randn(30, 37), torch.randn(5, 37)
    code = checked_code(together, x, y, device=device)
    if target_of(device).group > 1:
        pytest.skip("items of a GPU choose one by one")
    inside = re.findall(r"if \(tmp\d+\) \{\n(.*?)\n +\}", code, re.DOTALL)
    assert any("ob_exp_" in source for source in inside)
    assert any("ob_sin_" in source for source in inside)


def test_other_dtypes(device: torch.device):
    def function(*parts: torch.Tensor) -> list[torch.Tensor]:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return [torch.cat([x, y.logical_not().to(x.dtype)]).flip(1) for x, y in pairs]

    dtypes = (torch.float16, torch.int64, torch.bool)
    parts = [(torch.randn(n, 20) > 0).to(dtype) for dtype in dtypes for n in (3, 4)]
    check(function, *parts, device=device)


def test_an_index_that_is_not_read_is_not_looked_at(device: torch.device):
    """One that is read is."""

    def function(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.exp(), y[rows].sin()])

    x, y, rows = torch.randn(3, 37), torch.randn(5, 37), torch.tensor([1, 4, 2, 0])
    check(function, x, y, rows, device=device)
    compiled = torch.compile(function)
    with pytest.raises(IndexError, match="out of range"):
        compiled(*moved((x, y, rows + 3), device)).cpu()


def test_an_index_counts_as_checked_only_where_it_was(device: torch.device):
    """Read under a condition first, and then without."""

    def function(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        some = torch.cat([torch.zeros_like(x[:1]), x[rows].exp()[1:]])
        return some + x[rows]

    x, rows = torch.randn(5, 37), torch.tensor([1, 4, 2, 0])
    check(function, x, rows, device=device)
    compiled = torch.compile(function)
    with pytest.raises(IndexError, match="out of range"):
        compiled(*moved((x, torch.tensor([5, 1, 2, 3])), device)).cpu()


def test_sums_and_gradients(device: torch.device):
    x, y = torch.randn(6, 37, requires_grad=True), torch.randn(5, 37, requires_grad=True)

    def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = together(x, y)
        sums = rows.softmax(1) - rows.mean(0)
        return sums.detach(), *torch.autograd.grad(rows.square().sum(), (x, y))

    check(step, x, y, device=device, tolerance=1e-4)
