"""bucketize and searchsorted in kernels of compiled graphs, against eager CPU."""

from __future__ import annotations

import pytest
import torch

from tests.inductor.support import check, kernels_of, moved

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("right", [False, True])
def test_places_of_values(right: bool, device: torch.device):
    """Values between, on, below and above boundaries, NaN, no boundaries, and one."""

    def function(x: torch.Tensor, *lines: torch.Tensor) -> list[torch.Tensor]:
        return [torch.bucketize(x * 2, line, right=right) + 1 for line in lines]

    x = torch.cat([torch.arange(-9, 10) / 4, torch.tensor([NAN, INF, -INF]), torch.randn(70)])
    lines = [torch.arange(-3.0, 4.0), torch.zeros(0), torch.ones(1), torch.zeros(5)]
    lines.append(torch.tensor([-1, 0, 0, 2, INF, NAN, NAN]))
    check(function, x, *lines, device=device)
    code = kernels_of(function, *moved((x, *lines), device))
    assert " = torch.ops.aten.bucketize.Tensor(" not in code


def test_lines_and_dtypes(device: torch.device):
    def function(lines: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = torch.searchsorted(lines, x, out_int32=True, side="right")
        return places, torch.searchsorted(lines.t()[:, :1].t().contiguous(), x[:1])

    for dtype in (torch.float64, torch.float16, torch.int64, torch.uint8):
        lines = torch.randint(0, 99, (13, 13)).to(dtype).sort(-1).values
        x = torch.randint(0, 99, (13, 37)).to(dtype)
        check(function, lines, x, device=device)


def test_strides(device: torch.device):
    def function(lines: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(lines.t(), x[:, 1::2])

    check(function, torch.randn(50, 7).sort(0).values, torch.randn(7, 90), device=device)


def test_an_order_of_lines(device: torch.device):
    def function(lines: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        order = lines.argsort(-1)
        return tuple(torch.searchsorted(lines, x, right=r, sorter=order) for r in (False, True))

    check(function, torch.randn(7, 33), torch.randn(7, 90), device=device)


def test_a_wrong_place_in_an_order(device: torch.device):
    line, x = torch.tensor([1.0, 2.0, 3.0], device=device), torch.randn(40, device=device)
    order = torch.tensor([7, 9, 1 << 40], device=device)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        torch.compile(lambda: torch.searchsorted(line, x, sorter=order))().cpu()


def test_sizes_may_change(device: torch.device):
    compiled = torch.compile(lambda x, line: torch.bucketize(x, line), dynamic=True)
    for size in (3, 50, 200):
        x, line = torch.randn(size * 7), torch.randn(size).sort().values
        actual = compiled(x.to(device), line.to(device)).cpu()
        torch.testing.assert_close(actual, torch.bucketize(x, line))
