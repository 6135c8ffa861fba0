"""Compiled graphs of ragged tensors (`torch.jagged`), for batches of several sizes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.by_turns(2)

BATCHES = ([3, 5, 2], [4, 1], [7, 2, 2, 9])


def _rows(lengths: list[int]) -> list[Tensor]:
    return [torch.randn(length, 8) for length in lengths]


def _ragged(rows: list[Tensor], device: torch.device) -> Tensor:
    return torch.nested.nested_tensor(rows, layout=torch.jagged, device=device)


def test_training(device: torch.device):
    """Rows are what a batch without ragged sizes makes of them, and so are gradients."""
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    there = copy.deepcopy(model).to(device)
    compiled = torch.compile(there)
    for lengths in BATCHES:
        rows = _rows(lengths)
        model.zero_grad()
        there.zero_grad()
        right, ours = model(torch.cat(rows)), compiled(_ragged(rows, device)).values()
        torch.testing.assert_close(ours.cpu(), right)
        right.square().sum().backward()
        ours.square().sum().backward()
        for p, q in zip(there.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-4, atol=1e-4)


def test_reductions_and_padding(device: torch.device):
    """Kernels of as many elements as there are rows, whose number no guard can name."""

    @torch.compile
    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.to_padded_tensor(-1.0), x.mean(dim=1), x.sum(dim=1)

    for lengths in BATCHES:
        rows = _rows(lengths)
        padded, means, sums = function(_ragged(rows, device))
        right = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1.0)
        torch.testing.assert_close(padded.cpu(), right)
        torch.testing.assert_close(means.cpu(), torch.stack([row.mean(0) for row in rows]))
        torch.testing.assert_close(sums.cpu(), torch.stack([row.sum(0) for row in rows]))
