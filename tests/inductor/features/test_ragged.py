"""Compiled graphs of ragged tensors (`torch.jagged`), for batches of several sizes."""

import copy

import pytest
import torch
from torch import Tensor, nn


@pytest.mark.by_turns(3)
def test_batches_of_several_sizes(device: torch.device):
    """Rows are what a batch without ragged sizes makes of them, and so are gradients.

    Means and sums are kernels of as many elements as there are rows, whose number no guard can
    name.
    """
    model = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.LayerNorm(6))
    there = copy.deepcopy(model).to(device)

    @torch.compile
    def compiled(x: Tensor) -> tuple[Tensor, ...]:
        return there(x), x.to_padded_tensor(-1.0), x.mean(dim=1), x.sum(dim=1)

    for lengths in ([3, 5, 2], [4, 1], [7, 2, 2, 9]):
        rows = [torch.randn(length, 8) for length in lengths]
        model.zero_grad()
        there.zero_grad()
        ragged = torch.nested.nested_tensor(rows, layout=torch.jagged, device=device)
        results, *folded = compiled(ragged)
        ours, right = results.values(), model(torch.cat(rows))
        torch.testing.assert_close(ours.cpu(), right)
        # The sum of squares of normalized rows is constant, and its gradients would be rounding.
        right.sin().sum().backward()
        ours.sin().sum().backward()
        for p, q in zip(there.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-4, atol=1e-4)
        expected = (
            nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1.0),
            torch.stack([row.mean(0) for row in rows]),
            torch.stack([row.sum(0) for row in rows]),
        )
        for got, want in zip(folded, expected, strict=True):
            torch.testing.assert_close(got.cpu(), want)
