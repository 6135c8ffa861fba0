"""Graphs whose sizes are open, called with several."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional

pytestmark = pytest.mark.by_turns(2)

LENGTHS = [(5, 4), (9, 7)]


def attention(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Of queries, keys and values in one product, as in torch.nn.MultiheadAttention."""
    parts = (x @ weight + 1).unflatten(-1, (3, 8)).unsqueeze(0).transpose(0, -2).squeeze(-2)
    length, batch = x.shape[:2]
    q, k, v = (each.view(length, batch * 2, 4).transpose(0, 1) for each in parts.contiguous())
    return functional.scaled_dot_product_attention(q[None], k[None], v[None])


def test_gradients_at_other_sizes(device: torch.device):
    """The forward graph saves views of what it lays out as it likes, with dynamic strides."""
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


def test_sizes_that_equal_others_compile_nothing_anew(device: torch.device):
    """A batch of as many rows as a layer is wide, or a sequence as long as the batch."""
    torch.manual_seed(0)
    inner = torch.nn.Linear(8, 12)
    model = torch.nn.Sequential(
        inner, torch.nn.GELU(), torch.nn.LayerNorm(12), torch.nn.Linear(12, 8)
    )
    model.to(device)
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(model, dynamic=True, backend=counter)
    graphs = set[int]()
    for sizes in ((3, 5), (12, 5), (5, 5), (8, 12)):
        x = torch.randn(*sizes, 8, device=device)
        results = []
        for run in (compiled, model):
            out = run(x)
            # Parts of a tensor, whose gradients are put together.
            loss = (out[..., :4] * out[..., 4:].cumsum(0)).square().sum()
            results.append(torch.autograd.grad(loss, inner.weight))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
        graphs.add(counter.frame_count)
    assert len(graphs) == 1
