"""Graphs whose sizes are open, called with several."""

from __future__ import annotations

import torch
from torch.nn import functional

LENGTHS = [(5, 4), (9, 5), (6, 7)]


def attention(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Of queries, keys and values in one product, as in torch.nn.MultiheadAttention."""
    parts = (x @ weight + 1).unflatten(-1, (3, 8)).unsqueeze(0).transpose(0, -2).squeeze(-2)
    length, batch = x.shape[:2]
    q, k, v = (each.view(length, batch * 2, 4).transpose(0, 1) for each in parts.contiguous())
    return functional.scaled_dot_product_attention(q[None], k[None], v[None])


def test_gradients_at_other_sizes(device: torch.device):
    """The forward graph saves views of what it lays out as it likes, by strides of open sizes."""
    torch.manual_seed(0)
    weight = torch.randn(8, 24, device=device, requires_grad=True)
    compiled = torch.compile(attention, dynamic=True)
    for length, batch in LENGTHS:
        x = torch.randn(length, batch, 8, device=device)
        results = [
            torch.autograd.grad(run(x, weight).square().sum(), weight)
            for run in (compiled, attention)
        ]
        torch.testing.assert_close(*results)
