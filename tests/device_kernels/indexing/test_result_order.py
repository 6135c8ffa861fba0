"""Results of `x[i]` have CPU's order in memory, whatever the order of `x` and of the index."""

from __future__ import annotations

import pytest
import torch

ALL = slice(None)
PLACES = torch.tensor([0, 2, 3])
MATRIX = torch.tensor([[0, 1], [2, 3]])
MASK = torch.tensor([True, False, True, True, False])
INDICES = {
    "first": (PLACES,),
    "second": (ALL, PLACES),
    "last": (ALL, ALL, PLACES),
    "apart": (PLACES, ALL, PLACES),
    "together": (ALL, MATRIX, MATRIX),
    "transposed": (ALL, MATRIX.t()),
    "mask": (ALL, MASK),
}


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("index", INDICES)
def test_strides(device: torch.device, order: tuple[int, ...], index: str) -> None:
    x = torch.randn(5, 5, 5).permute(order)
    expected = x[INDICES[index]]
    there = tuple(i.to(device) if isinstance(i, torch.Tensor) else i for i in INDICES[index])
    torch.testing.assert_close(x.to(device)[there].cpu(), expected, check_stride=True)
