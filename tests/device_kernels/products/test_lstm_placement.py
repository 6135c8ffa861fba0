"""Where layers of LSTM run: steps by device kernels, or one call of oneDNN on the host."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close

from torch_outboard import fallback, placement


@pytest.mark.parametrize("setting", placement.PLACEMENTS)
def test_a_layer_runs_where_its_device_does(device, shares_memory, setting):
    torch.manual_seed(0)
    layer, sequence = torch.nn.LSTM(6, 20).to(device), torch.randn(5, 4, 6, device=device)
    expected = copy.deepcopy(layer).cpu()(sequence.cpu())[0]
    with placement.use(setting), fallback.report() as report:
        on_device = placement.runs_on_device(device)
        output = layer(sequence)[0]
    seen = {row.op for row in report.rows}
    one_call = not on_device and shares_memory and torch.backends.mkldnn.is_available()
    assert ("aten::mkldnn_rnn_layer" in seen) == one_call
    assert ("outboard_layers::lstm_steps" in seen) == on_device
    assert ("aten::_thnn_fused_lstm_cell" in seen) == (not on_device and not one_call)
    assert_close(output.cpu(), expected)
