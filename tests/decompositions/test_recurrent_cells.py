"""The fused recurrent cells of the kit's own, for which PyTorch has no CPU kernel."""

import pytest
import torch


def test_gates_that_do_not_come_out_even_are_refused(device: torch.device) -> None:
    """They were read past the end of a list."""
    state = torch.randn(2, 1, device=device)
    lstm = torch.ops.aten._thnn_fused_lstm_cell
    for columns in (1, 3, 5, 7):
        gates = torch.randn(2, columns, device=device)
        with pytest.raises(RuntimeError, match=r"4 gates side by side"):
            lstm(gates, gates, state)
        with pytest.raises(RuntimeError, match=r"4 gates side by side"):
            torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
                state, state, state, state, gates, has_bias=True
            )
        workspace = torch.randn(2, columns + (columns % 5 == 0), device=device)
        with pytest.raises(RuntimeError, match=r"5 gates side by side"):
            torch.ops.aten._thnn_fused_gru_cell_backward(state, workspace, has_bias=True)
    gates, state = torch.randn(8, device=device), torch.randn(2, device=device)
    with pytest.raises(RuntimeError, match=r"4 gates side by side"):
        lstm(gates, gates, state)
    with pytest.raises(RuntimeError, match=r"3 gates side by side"):
        torch.ops.aten._thnn_fused_gru_cell(gates, gates, state)


def test_no_hidden_units(device: torch.device) -> None:
    empty = torch.randn(2, 0, device=device)
    results = torch.ops.aten._thnn_fused_lstm_cell(empty, empty, empty)
    assert [result.shape for result in results] == [(2, 0)] * 3
