"""Along which loop the vectors of a reduction go."""

from __future__ import annotations

import pytest
import torch

from tests.inductor.support import check, kernels_of, moved
from torch_outboard.inductor.target import target_of


def heads(x: torch.Tensor) -> torch.Tensor:
    """(batch x heads, length, size) to (length x batch, heads x size): heads side by side."""
    return (x * 2).permute(1, 0, 2).reshape(64, 8, 128).reshape(512, 128)


def test_sums_over_rows_that_are_read_in_pieces(device: torch.device):
    """A quotient in an index is the same for all lanes, so they are neighbours in memory."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return heads(x).sum(0)

    x = torch.randn(16, 64, 64)
    check(function, x, device=device, tolerance=1e-3)
    code = kernels_of(function, *moved((x,), device))
    assert "ob_load_float" in code
    assert "ob_gather_float" not in code


@pytest.mark.parametrize("columns", [512, 96])
def test_sums_over_rows_take_several_vectors_at_once(columns: int, device: torch.device):
    """As many as a unit of work has, also where columns are few."""
    if target_of(device).group > 1:
        pytest.skip("an item of a GPU has one value")

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.exp().sum(0)

    x = torch.randn(300, columns)
    check(function, x, device=device, tolerance=1e-3)
    assert "_copy1" in kernels_of(function, *moved((x,), device))
