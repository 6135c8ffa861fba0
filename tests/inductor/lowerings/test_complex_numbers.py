"""Complex numbers in compiled graphs, which eager kernels compute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.inductor.support import check

FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "as_strided_scatter": lambda x, y: torch.as_strided_scatter(x, y, (4, 4), (1, 4), 4),
    "diagonal_scatter": lambda x, y: torch.diagonal_scatter(x, y[0], 1, 0, 1)[:, :4],
    "select_scatter": lambda x, y: torch.select_scatter(x, y[0], 1, 2) * 2,
    "slice_scatter": lambda x, y: torch.slice_scatter(x, y, 0, 1, 5),
    "views that are written to": lambda x, y: x.clone().t().copy_(x.t() * 2).mul_(1j),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_put_into_others(name: str, device: torch.device):
    sizes = (4, 5) if name in ("diagonal_scatter", "select_scatter") else (5, 4)
    x, y = torch.randn(sizes, dtype=torch.complex64), torch.randn(4, 4, dtype=torch.complex64)
    check(FUNCTIONS[name], x, y, device=device)
