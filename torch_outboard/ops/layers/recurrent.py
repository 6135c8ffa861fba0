"""The cells of LSTM and GRU layers, each one kernel.

The workspaces have the layout of the cells that are composed of operators
(csrc/accelerator_operators/recurrent_cells.cpp), so that forwards and backwards of both fit.
"""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated


def _cell(overload: str, state: str, gates: int, *, backward: bool, **properties: Any) -> Row:
    """A row of a cell; `state` is an argument of the sizes (batch, hidden) or a list of them."""
    launches = [Launch("cell", "batch", groups=True)]
    if backward:
        launches.append(Launch("sums_of_columns", f"{gates} * hidden", when="has_bias"))
    lstm = int("lstm" in overload)
    return templated(
        overload,
        "recurrent_cells",
        launches,
        dtypes=FLOATS,
        let={"batch": f"({state})[0]", "hidden": f"({state})[1]"},
        numbers={"batch": "batch", "hidden": "hidden"},
        constants={"LSTM": str(lstm), "BACKWARD": str(int(backward))},
        vectors=True,
        family="recurrent",
        **properties,
    )


def _forward(overload: str, state: str, gates: int, kept: int, results: list[Result]) -> Row:
    biases = [
        f"!given({name}) || (dims({name}) == 1 && size({name}, 0) == {gates} * hidden)"
        for name in ("input_bias", "hidden_bias")
    ]
    return _cell(
        overload,
        f"sizes({state})",
        gates,
        backward=False,
        operands=f"input_gates hidden_gates {state} input_bias? hidden_bias?",
        conditions=[
            f"dims({state}) == 2 && numel({state}) > 0",
            f"sizes(input_gates) == [batch, {gates} * hidden]",
            "sizes(hidden_gates) == sizes(input_gates)",
            *biases,
        ],
        results=[*results, Result("workspace", sizes=f"[batch, {kept} * hidden]")],
    )


def rows() -> list[Row]:
    """Every row."""
    state = "[batch, hidden]"
    return [
        _forward(
            "_thnn_fused_lstm_cell",
            "cx",
            4,
            4,
            [Result("hy", sizes=state), Result("cy", sizes=state)],
        ),
        _cell(
            "_thnn_fused_lstm_cell_backward_impl",
            "sizes(cx)",
            4,
            backward=True,
            operands="cx cy workspace grad_hy? grad_cy?",
            conditions=[
                "given(grad_hy) || given(grad_cy)",
                "dims(cx) == 2 && numel(cx) > 0 && sizes(cy) == sizes(cx)",
                "sizes(workspace) == [batch, 4 * hidden]",
                "!given(grad_hy) || sizes(grad_hy) == sizes(cx)",
                "!given(grad_cy) || sizes(grad_cy) == sizes(cx)",
            ],
            results=[
                Result("grad_gates", sizes="[batch, 4 * hidden]"),
                Result("grad_cx", sizes=state),
                Result("grad_bias", sizes="[4 * hidden]", wanted="has_bias"),
            ],
        ),
        _forward("_thnn_fused_gru_cell", "hx", 3, 5, [Result("hy", sizes=state)]),
        _cell(
            "_thnn_fused_gru_cell_backward",
            "sizes(grad_hy)",
            3,
            backward=True,
            operands="grad_hy workspace",
            conditions=[
                "dims(grad_hy) == 2 && numel(grad_hy) > 0",
                "sizes(workspace) == [batch, 5 * hidden]",
            ],
            results=[
                Result("grad_input_gates", sizes="[batch, 3 * hidden]"),
                Result("grad_hidden_gates", sizes="[batch, 3 * hidden]"),
                Result("grad_hx", sizes=state),
                Result("grad_input_bias", sizes="[3 * hidden]", wanted="has_bias"),
                Result("grad_hidden_bias", sizes="[3 * hidden]", wanted="has_bias"),
            ],
        ),
    ]
