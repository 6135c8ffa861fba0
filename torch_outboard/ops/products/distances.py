"""Distances between rows of matrices, and cross products."""

from functools import partial
from typing import NamedTuple

import torch

from torch_outboard.ops.definition import COMPLEX, FLOATS, INTEGERS, WIDE, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymFloat,
    SymInt,
    SymInts,
    SymTensor,
    broadcast_shapes,
    ceil_div,
    given,
    ints,
    maximum,
    where,
    wrap,
)
from torch_outboard.ops.template import Plan, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [_cdist, _cdist_backward, _pdist, _pdist_backward, _cross]


def _pass_norm(plan: Plan, p: SymFloat, of: SymTensor, *, backward: bool) -> None:
    """Passes the p-norm of rows with the dtype of `of`, to which CPU rounds p first."""
    largest = where(
        of.element_size() == 8, torch.finfo(torch.float64).max, torch.finfo(torch.float32).max
    )
    other = where(p > largest, 3, 4)
    kind = where(p == 0, 0, where(p == 1, 1, where(p == 2, 2, other)))
    plan.constants(KIND=kind, BACKWARD=backward)
    plan.parameters(p=p)


def _gradient(plan: Plan, arguments: dict[str, Symbol]) -> SymTensor:
    """The gradient as operand `grad`; the argument has another name since PyTorch 2.15."""
    return plan.operand("grad", arguments["grad" if "grad" in arguments else "grad_output"])


# ---- Between the rows of two matrices


class _Pairs(NamedTuple):
    """The sizes of two batches of matrices; each row of one is compared with each of the other."""

    batch: SymInts
    rows1: SymInt
    rows2: SymInt
    columns: SymInt

    @property
    def shape(self) -> SymInts:
        """The shape of the distances."""
        return self.batch + ints((self.rows1, self.rows2))


def _pairs_of(plan: Plan, x1: SymTensor, x2: SymTensor, p: SymFloat) -> _Pairs:
    pairs = _Pairs(
        broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), x1.size(-2), x2.size(-2), x1.size(-1)
    )
    plan.require(x1.dim() >= 2, x2.dim() >= 2, pairs.columns == x2.size(-1), p >= 0)
    plan.parameters(columns=pairs.columns, rows1=pairs.rows1, rows2=pairs.rows2)
    return pairs


_of_pairs = partial(template, kernels="distances", dtypes=WIDE, strided=("x1", "x2", "out"))


@_of_pairs("_cdist_forward _cdist_forward.out")
def _cdist(plan: Plan, x1: SymTensor, x2: SymTensor, p: SymFloat, compute_mode: SymInt) -> None:
    pairs = _pairs_of(plan, x1, x2, p)
    known = (compute_mode >= 0) & (compute_mode <= 2)
    plan.require(where(given(compute_mode), known, True))
    out = plan.result("out", pairs.shape)
    _pass_norm(plan, p, x1, backward=False)
    # 8 is OB_ADJACENT in distances.cl.
    items = out.numel() // pairs.rows2 * ceil_div(pairs.rows2, 8)
    plan.launch("cdist", where(pairs.rows2 == 0, 0, items))


@_of_pairs("_cdist_backward _cdist_backward.out")
def _cdist_backward(plan: Plan, x1: SymTensor, x2: SymTensor, p: SymFloat, **rest: Symbol) -> None:
    grad = _gradient(plan, rest)
    cdist = plan.operand("cdist", rest["cdist"])
    pairs = _pairs_of(plan, x1, x2, p)
    # The gradient of no distances is zeros with the strides of x1, which CPU's kernel makes.
    plan.require(grad.numel() != 0, pairs.columns != 0)
    plan.require(grad.shape == pairs.shape, cdist.shape == pairs.shape)
    out = plan.result("out", pairs.batch + ints((pairs.rows1, pairs.columns)))
    _pass_norm(plan, p, x1, backward=True)
    plan.launch("cdist", out.numel())


# ---- Between the rows of one matrix


def _require_matrix(plan: Plan, self: SymTensor, p: SymFloat) -> None:
    plan.require(self.dim() == 2, p >= 0)
    plan.parameters(rows=self.size(0), columns=self.size(1))


def _shape_of_pairs(self: SymTensor) -> SymInts:
    """The shape of the distances, one per pair of rows."""
    count = self.size(0)
    return ints((maximum(count * (count - 1) // 2, 0),))


@template("_pdist_forward _pdist_forward.out", "distances", dtypes=WIDE)
def _pdist(plan: Plan, self: SymTensor, p: SymFloat) -> None:
    _require_matrix(plan, self, p)
    out = plan.result("out", _shape_of_pairs(self))
    _pass_norm(plan, p, self, backward=False)
    plan.launch("pdist", out.numel())


@template("_pdist_backward _pdist_backward.out", "distances", dtypes=WIDE)
def _pdist_backward(plan: Plan, self: SymTensor, p: SymFloat, **rest: Symbol) -> None:
    grad = _gradient(plan, rest)
    pdist = plan.operand("pdist", rest["pdist"])
    _require_matrix(plan, self, p)
    plan.require(grad.shape == _shape_of_pairs(self), pdist.shape == _shape_of_pairs(self))
    out = plan.result("out", self.shape)
    _pass_norm(plan, p, self, backward=True)
    plan.launch("pdist", out.numel())


@template(
    "linalg_cross linalg_cross.out",
    "cross",
    dtypes=(*FLOATS, *INTEGERS, *COMPLEX),
    strided=("self", "other", "out"),
    family="pointwise",
)
def _cross(plan: Plan, self: SymTensor, other: SymTensor, dim: SymInt) -> None:
    plan.require(self.dim() > 0, self.dim() == other.dim())
    out = plan.result("out")
    plan.parameters(d=wrap(dim, self.dim()))
    plan.launch("cross_product", out.numel() // 3)
