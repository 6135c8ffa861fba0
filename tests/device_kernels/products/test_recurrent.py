"""LSTM and GRU cells as one kernel each, against CPU's layers and against the composed cells."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close

from torch_outboard import fallback, ways

CELLS = {
    torch.nn.LSTM: ("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_lstm_cell_backward_impl"),
    torch.nn.GRU: ("aten::_thnn_fused_gru_cell", "aten::_thnn_fused_gru_cell_backward"),
}


def run(layer, sequence):
    sequence = sequence.detach().requires_grad_()
    result, state = layer(sequence)
    states = state if isinstance(state, tuple) else (state,)
    total = sum(s.float().square().sum() for s in (result, *states))
    gradients = torch.autograd.grad(total, [sequence, *layer.parameters()])
    return [t.detach().cpu() for t in (result, *states, *gradients)]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize(
    ("hidden", "bias", "dtype"),
    [(20, True, torch.float32), (3, False, torch.float64)],
)
def test_training(device, kind, hidden, bias, dtype):
    torch.manual_seed(0)
    layer = kind(6, hidden, num_layers=2, bias=bias, dtype=dtype)
    sequence = torch.randn(5, 4, 6, dtype=dtype)
    expected = run(layer, sequence)
    moved = copy.deepcopy(layer).to(device)
    with fallback.report() as report:
        actual = run(moved, sequence.to(device))
    for want, got in zip(expected, actual, strict=True):
        assert_close(got, want)
    taken = {row.op: row.way for row in report.rows}
    assert {taken[op] for op in CELLS[kind]} == {"device"}


@pytest.mark.parametrize("kind", CELLS)
def test_workspaces_fit_those_of_composed_cells(device, kind):
    """A forward the one way and its backward the other."""
    torch.manual_seed(0)
    layer = kind(6, 20, dtype=torch.bfloat16).to(device)
    sequence = torch.randn(3, 4, 6, dtype=torch.bfloat16).to(device).requires_grad_()
    gradients = []
    for forward, backward in (("device", "host"), ("host", "device"), ("device", "device")):
        # Else the host takes a layer at once.
        with ways.way(forward), torch.backends.mkldnn.flags(enabled=False):
            total = layer(sequence)[0].float().square().sum()
        with ways.way(backward):
            gradients.append(torch.autograd.grad(total, [sequence, *layer.parameters()]))
    for mixed in gradients[:2]:
        for got, want in zip(mixed, gradients[2], strict=True):
            assert_close(got, want, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("kind", CELLS)
def test_gradcheck(device, kind):
    torch.manual_seed(0)
    layer = kind(3, 4, dtype=torch.float64).to(device)
    sequence = torch.randn(2, 2, 3, dtype=torch.float64).to(device).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], [sequence])
