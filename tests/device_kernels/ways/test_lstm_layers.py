"""Which way layers of LSTM go: steps by device kernels, or one call of oneDNN on the host."""

from __future__ import annotations

import copy
import time

import pytest
import torch
from torch.testing import assert_close

from torch_outboard import fallback, ways


def operators(layer: torch.nn.LSTM, sequence: torch.Tensor) -> tuple[set[str], torch.Tensor]:
    with fallback.report() as report:
        output = layer(sequence)[0]
    return {row.op for row in report.rows}, output


def test_a_way_that_is_forced(device, shares_memory):
    torch.manual_seed(0)
    layer, sequence = torch.nn.LSTM(6, 20).to(device), torch.randn(5, 4, 6, device=device)
    expected = copy.deepcopy(layer).cpu()(sequence.cpu())[0]
    for forced in ("device", "host"):
        with ways.way(forced):
            seen, output = operators(layer, sequence)
        one_call = forced == "host" and shares_memory and torch.backends.mkldnn.is_available()
        assert ("aten::mkldnn_rnn_layer" in seen) == one_call
        assert ("outboard_layers::lstm_steps" in seen) == (forced == "device")
        assert ("aten::_thnn_fused_lstm_cell" in seen) == (forced == "host" and not one_call)
        assert_close(output.cpu(), expected)


def test_auto_goes_by_the_table(device, shares_memory, savings):
    """What a layer saves counts as a whole, and not what its products would."""
    if not (shares_memory and torch.backends.mkldnn.is_available()):
        pytest.skip("there is one way only")
    layer, sequence = torch.nn.LSTM(6, 20).to(device), torch.randn(5, 4, 6, device=device)
    for saved in (-10_000.0, 10_000.0):
        savings({"recurrent_layer": saved})
        with torch.no_grad():
            seen, _ = operators(layer, sequence)
        assert ("aten::mkldnn_rnn_layer" in seen) == (saved > 0)
        assert ("outboard_layers::lstm_steps" in seen) == (saved < 0)


@pytest.mark.slow
def test_auto_measures_the_programs_own_layers(device, shares_memory, savings):
    """Whatever a table says, both ways are tried after a second of work, and one is kept."""
    if not (shares_memory and torch.backends.mkldnn.is_available()):
        pytest.skip("there is one way only")
    savings({"recurrent_layer": -10_000.0})
    layer, sequence = torch.nn.LSTM(64, 64).to(device), torch.randn(64, 16, 64, device=device)

    def goes_to_host() -> bool:
        names, output = operators(layer, sequence)
        output.sum().backward()
        return "aten::mkldnn_rnn_layer" in names

    assert not goes_to_host()
    end = time.monotonic() + 30
    while not goes_to_host():
        assert time.monotonic() < end
    for _ in range(100):  # more than are tried
        goes_to_host()
    assert len({goes_to_host() for _ in range(20)}) == 1
