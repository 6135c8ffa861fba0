"""Gated linear units, and their derivatives.

Along a dimension the first half of the elements, a, is multiplied by the logistic function of the
second half, b.
"""

from __future__ import annotations

from typing import NamedTuple

from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.symbolic import SymInt, SymInts, SymTensor, wrap
from torch_outboard.ops.template import Plan, template

# A work-item per pair of elements; `first` and `second` are the indices of a and b.
_PAIR = """
static inline V logistic(const V x) { return 1 / (1 + exp(-x)); }

#define OB_PAIR                                          \\
  OB_ITEM(i)                                             \\
  const ob_index first = i + (i / half_size) * half_size; \\
  const ob_index second = first + half_size;
"""


def _kernel(body: str) -> str:
    return f"{_PAIR}\n__kernel void glu(OB_PARAMETERS) {{\nOB_BEGIN\nOB_PAIR\n{body}\n}}\n"


_FORWARD = _kernel("out_store(i, self_load(first) * logistic(self_load(second)));")
_BACKWARD = _kernel("""
    const V gate = logistic(self_load(second));
    const V grad = grad_output_load(i) * gate;
    grad_input_store(first, grad);
    grad_input_store(second, grad * (1 - gate) * self_load(first));
""")
_JVP = _kernel("""
    const V gate = logistic(x_load(second));
    out_store(i, dx_load(first) * gate + glu_load(i) * (1 - gate) * dx_load(second));
""")
# The forward-mode derivative of the backward pass, for both halves.
_BACKWARD_JVP = _kernel("""
    const V gate = logistic(x_load(second));
    const V slope = gate * (1 - gate);
    const V a = x_load(first), da = dx_load(first), db = dx_load(second);
    const V grad = grad_x_load(first);
    const V dgrad = dgrad_glu_load(i) * gate + grad * (1 - gate) * db;
    out_store(first, dgrad);
    out_store(second, (dgrad * a + grad * da) * (1 - gate) - grad * a * slope * db);
""")


class _Halves(NamedTuple):
    """The halves of a tensor along a dimension."""

    shape: SymInts  # of a half
    length: SymInt  # adjacent elements of a half


def _halves_of(plan: Plan, tensor: SymTensor, dim: SymInt) -> _Halves:
    d = wrap(dim, tensor.dim())
    size = tensor.size(d)
    half = size // 2
    plan.require(tensor.dim() > 0, size % 2 == 0)
    return _Halves(tensor.shape.replace(d, half), half * tensor.shape[d + 1 :].prod())


def _launch(plan: Plan, halves: _Halves, half: SymTensor) -> None:
    plan.parameters(half_size=halves.length)
    plan.launch("glu", half.numel())


@template("glu glu.out", source=_FORWARD, dtypes=FLOATS)
def _glu(plan: Plan, self: SymTensor, dim: SymInt) -> None:
    halves = _halves_of(plan, self, dim)
    _launch(plan, halves, plan.result("out"))


@template("glu_backward glu_backward.grad_input", source=_BACKWARD, dtypes=FLOATS)
def _glu_backward(plan: Plan, self: SymTensor, grad_output: SymTensor, dim: SymInt) -> None:
    halves = _halves_of(plan, self, dim)
    plan.require(grad_output.shape == halves.shape)
    plan.result("grad_input", self.shape)
    _launch(plan, halves, grad_output)


@template("glu_jvp glu_jvp.out", source=_JVP, dtypes=FLOATS)
def _glu_jvp(plan: Plan, glu: SymTensor, x: SymTensor, dx: SymTensor, dim: SymInt) -> None:
    halves = _halves_of(plan, x, dim)
    plan.require(glu.shape == halves.shape, dx.shape == x.shape)
    plan.result("out", like=glu)
    _launch(plan, halves, glu)


@template(
    "glu_backward_jvp glu_backward_jvp.out",
    source=_BACKWARD_JVP,
    dtypes=FLOATS,
    shapes_only=("grad_glu",),
)
def _glu_backward_jvp(
    plan: Plan,
    x: SymTensor,
    grad_x: SymTensor,
    dx: SymTensor,
    dgrad_glu: SymTensor,
    grad_glu: SymTensor,
    dim: SymInt,
) -> None:
    halves = _halves_of(plan, x, dim)
    plan.require(
        grad_glu.shape == halves.shape,
        dgrad_glu.shape == grad_glu.shape,
        (grad_x.shape == x.shape) & (dx.shape == x.shape),
    )
    plan.result("out", x.shape)
    _launch(plan, halves, dgrad_glu)


def definitions() -> list[Definition]:
    """Every definition."""
    return [_glu, _glu_backward, _glu_jvp, _glu_backward_jvp]
