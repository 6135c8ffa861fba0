"""The cells of LSTM and GRU layers, each one kernel, and all steps in time of an LSTM layer.

The workspaces of cells have the same layout as in the decomposition of a cell
(csrc/decompositions/recurrent_cells.cpp), so either backward fits either forward.
csrc/decompositions/lstm.cpp calls the steps.
"""

from functools import partial
from typing import NamedTuple

import torch

from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymInt,
    SymTensor,
    ceil_div,
    either_given,
    fits,
    maximum,
)
from torch_outboard.ops.template import Plan, template

_LIBRARY = torch.library.Library("outboard_layers", "DEF")
_LIBRARY.define(
    "lstm_steps(Tensor gates, Tensor weight, Tensor hx, Tensor cx, bool reverse)"
    " -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "lstm_steps_backward(Tensor workspace, Tensor weight, Tensor? grad_output, Tensor? grad_hy,"
    " Tensor? grad_cy, int steps, int batch, bool reverse) -> (Tensor, Tensor, Tensor)"
)


def definitions() -> list[Definition]:
    """Every operator definition."""
    return [
        _lstm_steps,
        _lstm_steps_backward,
        _cell(lstm=True),
        _lstm_cell_backward,
        _cell(lstm=False),
        _gru_cell_backward,
    ]


_define = partial(template, dtypes=FLOATS, vectors=True)


# ---- All steps in time


class _Steps(NamedTuple):
    """Sizes of a layer; a work-group takes 4 rows of the batch and `chunk` hidden values."""

    steps: SymInt
    batch: SymInt
    hidden: SymInt

    @property
    def states(self) -> SymInt:
        return self.batch * self.hidden

    @property
    def workspace(self) -> SymInt:
        """Elements of the workspace."""
        return (6 * self.steps + 2) * self.states


def _launch_steps(
    plan: Plan, of: _Steps, launched: SymInt, reverse: SymBool, *, backward: bool
) -> None:
    """Launches the kernels of `launched` time steps."""
    chunk = maximum(64, plan.group_lanes)
    chunks = ceil_div(of.hidden, chunk)
    parts = ceil_div(of.batch, 4)
    plan.parameters(
        steps=of.steps,
        batch=of.batch,
        hidden=of.hidden,
        chunk=chunk,
        chunks=chunks,
        cells_at=4 * of.steps * of.states,
        states_at=(5 * of.steps + 1) * of.states,
    )
    plan.constants(BACKWARD=backward, reverse=reverse)
    # A work-item of a CPU computes all time steps of its rows.
    at_once = plan.on_processor & ((chunks == 1) | (parts >= plan.processors))
    plan.launch("all_steps", groups=parts, when=at_once)
    plan.launch("step_in_time", groups=parts * chunks, when=~at_once, repeat=launched)


@_define("outboard_layers::lstm_steps", "recurrent")
def _lstm_steps(
    plan: Plan, gates: SymTensor, weight: SymTensor, hx: SymTensor, cx: SymTensor, reverse: SymBool
) -> None:
    of = _Steps(gates.size(0), gates.size(1), weight.size(1))
    steps, batch, hidden = of.steps, of.batch, of.hidden
    plan.require(
        (gates.dim() == 3) & (weight.dim() == 2) & (gates.numel() > 0),
        (gates.shape == [steps, batch, 4 * hidden]) & (weight.shape == [4 * hidden, hidden]),
        (hx.shape == [batch, hidden]) & (cx.shape == [batch, hidden]),
    )
    plan.result("out", [steps, batch, hidden])
    plan.result("workspace", [of.workspace])
    plan.temporary("turned", 4 * hidden * hidden)
    plan.launch("first_states", of.states)
    plan.launch("turn_weights", 4 * hidden * ceil_div(hidden, 16))
    _launch_steps(plan, of, steps, reverse, backward=False)


@_define("outboard_layers::lstm_steps_backward", "recurrent")
def _lstm_steps_backward(
    plan: Plan,
    workspace: SymTensor,
    weight: SymTensor,
    grad_output: SymTensor,
    grad_hy: SymTensor,
    grad_cy: SymTensor,
    steps: SymInt,
    batch: SymInt,
    reverse: SymBool,
) -> None:
    hidden = weight.size(1)
    of = _Steps(steps, batch, hidden)
    plan.require(
        (weight.dim() == 2) & (steps > 0) & (batch > 0) & (weight.numel() > 0),
        weight.shape == [4 * hidden, hidden],
        workspace.shape == [of.workspace],
        fits(grad_output, [steps, batch, hidden]),
        fits(grad_hy, [batch, hidden]),
        fits(grad_cy, [batch, hidden]),
    )
    plan.result("grad_gates", [steps, batch, 4 * hidden])
    plan.result("grad_hx", [batch, hidden])
    plan.result("grad_cx", [batch, hidden])
    plan.temporary("to_cells", 2 * of.states)
    _launch_steps(plan, of, steps + 1, reverse, backward=True)


# ---- Cells


def _launch_cell(plan: Plan, state: SymTensor, *, lstm: bool, backward: bool) -> None:
    batch, hidden = state.size(0), state.size(1)
    plan.parameters(batch=batch, hidden=hidden)
    plan.constants(LSTM=lstm, BACKWARD=backward)
    plan.launch("cell", groups=batch)


def _cell(*, lstm: bool) -> Definition:
    name, initial, gates, saved = ("lstm", "cx", 4, 4) if lstm else ("gru", "hx", 3, 5)

    @_define(f"_thnn_fused_{name}_cell", "recurrent")
    def cell(
        plan: Plan,
        input_gates: SymTensor,
        hidden_gates: SymTensor,
        input_bias: SymTensor,
        hidden_bias: SymTensor,
        **rest: Symbol,
    ) -> None:
        state = plan.operand(initial, rest[initial])
        batch, hidden = state.size(0), state.size(1)
        plan.require(
            (state.dim() == 2) & (state.numel() > 0),
            input_gates.shape == [batch, gates * hidden],
            hidden_gates.shape == input_gates.shape,
            *(fits(bias, [gates * hidden]) for bias in (input_bias, hidden_bias)),
        )
        for result in ("hy", "cy") if lstm else ("hy",):
            plan.result(result, [batch, hidden])
        plan.result("workspace", [batch, saved * hidden])
        _launch_cell(plan, state, lstm=lstm, backward=False)

    return cell


@_define("_thnn_fused_lstm_cell_backward_impl", "recurrent")
def _lstm_cell_backward(
    plan: Plan,
    cx: SymTensor,
    cy: SymTensor,
    workspace: SymTensor,
    grad_hy: SymTensor,
    grad_cy: SymTensor,
    has_bias: SymBool,
) -> None:
    batch, hidden = cx.size(0), cx.size(1)
    plan.require(
        either_given(grad_hy, grad_cy),
        (cx.dim() == 2) & (cx.numel() > 0) & (cy.shape == cx.shape),
        workspace.shape == [batch, 4 * hidden],
        fits(grad_hy, cx.shape),
        fits(grad_cy, cx.shape),
    )
    plan.result("grad_gates", [batch, 4 * hidden])
    plan.result("grad_cx", [batch, hidden])
    plan.result("grad_bias", [4 * hidden], wanted=has_bias)
    _launch_cell(plan, cx, lstm=True, backward=True)
    plan.launch("sums_of_columns", 4 * hidden, when=has_bias)


@_define("_thnn_fused_gru_cell_backward", "recurrent")
def _gru_cell_backward(
    plan: Plan, grad_hy: SymTensor, workspace: SymTensor, has_bias: SymBool
) -> None:
    batch, hidden = grad_hy.size(0), grad_hy.size(1)
    plan.require(
        (grad_hy.dim() == 2) & (grad_hy.numel() > 0), workspace.shape == [batch, 5 * hidden]
    )
    for name in ("grad_input_gates", "grad_hidden_gates"):
        plan.result(name, [batch, 3 * hidden])
    plan.result("grad_hx", [batch, hidden])
    for name in ("grad_input_bias", "grad_hidden_bias"):
        plan.result(name, [3 * hidden], wanted=has_bias)
    _launch_cell(plan, grad_hy, lstm=False, backward=True)
    plan.launch("sums_of_columns", 3 * hidden, when=has_bias)
