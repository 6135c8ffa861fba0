"""bucketize and searchsorted in kernels of compiled graphs, against eager CPU."""

import pytest
import torch

from tests.inductor.support import check, check_sizes, checked_code

NAN, INF = float("nan"), float("inf")


def test_addresses_of_values(device: torch.device):
    """Values between, on, below and above boundaries, NaN, no boundaries, and one."""

    def function(x: torch.Tensor, *lines: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.bucketize(x * 2, line, right=right) + 1
            for line in lines
            for right in (False, True)
        ]

    x = torch.cat([torch.arange(-9, 10) / 4, torch.tensor([NAN, INF, -INF]), torch.randn(70)])
    lines = [torch.arange(-3.0, 4.0), torch.zeros(0), torch.ones(1), torch.zeros(5)]
    lines.append(torch.tensor([-1, 0, 0, 2, INF, NAN, NAN]))
    code = checked_code(function, x, *lines, device=device)
    assert " = torch.ops.aten.bucketize.Tensor(" not in code


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64])
def test_lines_and_dtypes(dtype: torch.dtype, device: torch.device):
    """Of any strides and any order."""

    def function(lines: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        order = y.argsort(-1)
        return [
            torch.searchsorted(lines, x, out_int32=True, side="right"),
            torch.searchsorted(lines.t()[:, :1].t().contiguous(), x[:1]),
            torch.searchsorted(lines, x[:, 1::2]),
            torch.searchsorted(lines.t().contiguous().t(), x),
            *(torch.searchsorted(y, x, right=right, sorter=order) for right in (False, True)),
        ]

    lines = torch.randint(0, 99, (13, 13)).to(dtype).sort(-1).values
    x, y = (torch.randint(0, 99, (13, 37)).to(dtype) for _ in range(2))
    check(function, lines, x, y, device=device)


def test_a_wrong_place_in_an_order(device: torch.device):
    line, x = torch.tensor([1.0, 2.0, 3.0], device=device), torch.randn(40, device=device)
    order = torch.tensor([7, 9, 1 << 40], device=device)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        torch.compile(lambda: torch.searchsorted(line, x, sorter=order))().cpu()


def test_sizes_may_change(device: torch.device):
    calls = [(torch.randn(n * 7), torch.randn(n).sort().values) for n in (3, 50, 200)]
    check_sizes(lambda x, line: torch.bucketize(x, line), *calls, device=device)
