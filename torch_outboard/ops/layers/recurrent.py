"""The cells of LSTM and GRU layers, each one kernel, and all steps in time of an LSTM layer.

The workspaces of cells have the layout of those that are composed of operators
(csrc/accelerator_operators/recurrent_cells.cpp), so that forwards and backwards of both fit.
Steps are what csrc/accelerator_operators/lstm_steps.cpp calls.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

_LIBRARY = torch.library.Library("outboard_layers", "DEF")
_LIBRARY.define(
    "lstm_steps(Tensor gates, Tensor weight, Tensor hx, Tensor cx, bool reverse)"
    " -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "lstm_steps_backward(Tensor workspace, Tensor weight, Tensor? grad_output, Tensor? grad_hy,"
    " Tensor? grad_cy, int steps, int batch, bool reverse) -> (Tensor, Tensor, Tensor)"
)


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


def _steps(overload: str, launches: list[Launch], *, backward: bool, **properties: Any) -> Row:
    """A row of all steps; a work-group takes 4 rows of the batch and `chunk` hidden values."""
    return templated(
        f"outboard_layers::{overload}",
        "recurrent_steps",
        launches,
        dtypes=FLOATS,
        numbers={
            "steps": "steps", "batch": "batch", "hidden": "hidden", "chunk": "chunk",
            "chunks": "chunks", "cells_at": "4 * steps * states",
            "states_at": "(5 * steps + 1) * states",
        },
        constants={"BACKWARD": str(int(backward)), "reverse": "reverse"},
        vectors=True,
        family="recurrent",
        **properties,
    )  # fmt: skip


_PARTS = {
    "states": "batch * hidden",
    "chunk": "max(64, group_lanes)",
    "chunks": "(hidden + chunk - 1) // chunk",
    "parts": "(batch + 3) // 4",
    # An item of a processor goes through all steps of its rows.
    "at_once": "group_lanes == 1 && (chunks == 1 || parts >= processors)",
}


def _launches(steps: str) -> list[Launch]:
    return [
        Launch("all_steps", "parts", groups=True, when="at_once"),
        Launch("step_in_time", "parts * chunks", groups=True, when="!at_once", repeat=steps),
    ]


def _step_rows() -> list[Row]:
    gates = "[steps, batch, 4 * hidden]"
    state = "[batch, hidden]"
    return [
        _steps(
            "lstm_steps",
            [
                Launch("first_states", "states"),
                Launch("turn_weights", "4 * hidden * ((hidden + 15) // 16)"),
                *_launches("steps"),
            ],
            backward=False,
            operands="gates weight hx cx",
            let={
                "steps": "size(gates, 0)", "batch": "size(gates, 1)", "hidden": "size(weight, 1)",
                **_PARTS,
            },
            conditions=[
                "dims(gates) == 3 && dims(weight) == 2 && numel(gates) > 0",
                f"sizes(gates) == {gates} && sizes(weight) == [4 * hidden, hidden]",
                f"sizes(hx) == {state} && sizes(cx) == {state}",
            ],
            results=[
                Result("out", sizes="[steps, batch, hidden]"),
                Result("workspace", sizes="[(6 * steps + 2) * states]"),
            ],
            temporaries=[Result("turned", sizes="4 * hidden * hidden")],
        ),
        _steps(
            "lstm_steps_backward",
            _launches("steps + 1"),
            backward=True,
            operands="workspace weight grad_output? grad_hy? grad_cy?",
            let={"hidden": "size(weight, 1)", **_PARTS},
            conditions=[
                "dims(weight) == 2 && steps > 0 && batch > 0 && numel(weight) > 0",
                "sizes(weight) == [4 * hidden, hidden]",
                "sizes(workspace) == [(6 * steps + 2) * states]",
                "!given(grad_output) || sizes(grad_output) == [steps, batch, hidden]",
                f"!given(grad_hy) || sizes(grad_hy) == {state}",
                f"!given(grad_cy) || sizes(grad_cy) == {state}",
            ],
            results=[
                Result("grad_gates", sizes=gates),
                Result("grad_hx", sizes=state),
                Result("grad_cx", sizes=state),
            ],
            temporaries=[Result("to_cells", sizes="2 * states")],
        ),
    ]  # fmt: skip


def rows() -> list[Row]:
    """Every row."""
    state = "[batch, hidden]"
    return [
        *_step_rows(),
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
