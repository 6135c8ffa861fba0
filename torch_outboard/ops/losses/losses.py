"""Elementwise losses, losses of class scores, and their gradients.

Values that CPU rejects, such as a target that is not a class, give NaN.
"""

from functools import partial
from typing import NamedTuple

import torch

from torch_outboard.ops.definition import FLOATS, WIDE, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymTensor,
    as_int,
    ceil_div,
    fits,
    maximum,
    minimum,
    where,
)
from torch_outboard.ops.template import Plan, template

# Values of `reduction`.
_NONE, _MEAN, _SUM = 0, 1, 2

# ---- Between an input and a target of the same shape


class _Loss(NamedTuple):
    """An elementwise loss of arguments with the same shape."""

    name: str
    number: int  # LOSS of losses.cl
    backward_out: str
    shape: str = ""  # the argument that parametrizes the loss function: beta or delta
    weighted: bool = False

    @property
    def overloads(self) -> str:
        return f"{self.name} {self.name}.out"


_LOSSES = (
    _Loss("mse_loss", 0, "mse_loss_backward.grad_input"),
    _Loss("smooth_l1_loss", 1, "smooth_l1_loss_backward.grad_input", shape="beta"),
    _Loss("huber_loss", 2, "huber_loss_backward.out", shape="delta"),
    _Loss("binary_cross_entropy", 3, "binary_cross_entropy_backward.grad_input", weighted=True),
)


def _unreduced(loss: _Loss) -> Definition:
    @template(loss.overloads, "losses", dtypes=FLOATS)
    def unreduced(
        plan: Plan, self: SymTensor, target: SymTensor, reduction: SymInt, **rest: Symbol
    ) -> None:
        plan.require(~_reduces(reduction))
        _take_loss_arguments(plan, loss, self, target, reduction, rest)
        plan.result("out", like=self)
        plan.launch("loss_each", self.numel())

    return unreduced


def _reduced(loss: _Loss) -> Definition:
    @template(loss.overloads, "rows losses", dtypes=FLOATS, vectors=True)
    def reduced(
        plan: Plan, self: SymTensor, target: SymTensor, reduction: SymInt, **rest: Symbol
    ) -> None:
        plan.require(_reduces(reduction))
        _take_loss_arguments(plan, loss, self, target, reduction, rest)
        count = self.numel()
        part = maximum(4096, ceil_div(count, 64))
        parts = ceil_div(count, part)
        plan.result("out", [])
        plan.temporary("losses", maximum(parts, 1), "value")
        plan.parameters(part=part, count=count, loss_count=parts, divisor=_divisor(self, reduction))
        plan.launch("loss_parts", groups=parts)
        plan.launch("loss_total", groups=1)

    return reduced


def _elementwise_backward(loss: _Loss) -> Definition:
    @template(f"{loss.name}_backward {loss.backward_out}", "losses", dtypes=FLOATS)
    def backward(
        plan: Plan,
        self: SymTensor,
        target: SymTensor,
        grad_output: SymTensor,
        reduction: SymInt,
        **rest: Symbol,
    ) -> None:
        _take_loss_arguments(plan, loss, self, target, reduction, rest)
        single = grad_output.numel() == 1
        plan.require(
            where(single, grad_output.dim() <= self.dim(), grad_output.shape == self.shape)
        )
        # Gradients of unweighted losses are row-major, as on CPU.
        plan.result("grad", self.shape, like=self if loss.weighted else None)
        plan.parameters(single=single, divisor=_divisor(self, reduction))
        plan.launch("loss_backward", self.numel())

    return backward


def _reduces(reduction: SymInt) -> SymBool:
    return (reduction == _MEAN) | (reduction == _SUM)


def _divisor(self: SymTensor, reduction: SymInt) -> SymInt:
    return where(reduction == _MEAN, self.numel(), 1)


def _take_loss_arguments(
    plan: Plan,
    loss: _Loss,
    self: SymTensor,
    target: SymTensor,
    reduction: SymInt,
    rest: dict[str, Symbol],
) -> None:
    """Plans the part common to all definitions of a loss; `rest` has the loss's own arguments."""
    plan.require(self.shape == target.shape, (reduction >= 0) & (reduction <= _SUM))
    if loss.weighted:
        weight = rest["weight"]
        assert isinstance(weight, SymTensor)
        plan.operand("weight", weight, optional=True)
        plan.require(fits(weight, self.shape))
    if loss.shape:
        shape = rest[loss.shape]
        assert isinstance(shape, SymFloat)
        plan.require(shape > 0)
        plan.parameters(shape=shape)
    plan.constants(LOSS=loss.number)


# ---- Of class scores

_TARGET = {"target": (torch.int64,)}
_NO_CLASS = "a target is not a class"
_define_nll = partial(
    template, kernels="nll_loss", dtypes=FLOATS, accepts=_TARGET, reports=IndexError(_NO_CLASS)
)
_define_margins = partial(template, dtypes=WIDE, accepts=_TARGET)


class _Scores(NamedTuple):
    """Class scores of shape (batch, classes, inner) or (classes)."""

    classes: SymInt
    inner: SymInt
    shape: SymInts  # without the classes
    total: SymInt  # number of losses


def _scores_of(self: SymTensor) -> _Scores:
    class_dim = where(self.dim() == 1, 0, 1)
    shape = self.shape.drop(class_dim)
    inner = self.shape[class_dim + 1 :].prod()
    return _Scores(self.size(class_dim), inner, shape, shape.prod())


def _has_scores(self: SymTensor, images: bool) -> SymBool:
    return self.dim() == 4 if images else (self.dim() == 1) | (self.dim() == 2)


def _nll_loss(images: bool) -> Definition:
    name = "nll_loss2d_forward" if images else "nll_loss_forward"

    @_define_nll(f"{name} {name}.output")
    def nll_loss(
        plan: Plan,
        self: SymTensor,
        target: SymTensor,
        weight: SymTensor,
        reduction: SymInt,
        ignore_index: SymInt,
    ) -> None:
        scores = _scores_of(self)
        plan.require(
            _has_scores(self, images),
            target.shape == scores.shape,
            fits(weight, [scores.classes]),
            (reduction >= _NONE) & (reduction <= _SUM),
        )
        # Parts of the losses are summed first, because one work-group would take long.
        parts = ceil_div(scores.total, plan.group_lanes)
        sums = maximum(1, where(reduction == _NONE, parts, minimum(parts, 8 * plan.processors)))
        plan.result("out", where(reduction == _NONE, scores.shape, []))
        plan.result("total", [])
        for temporary in ("losses", "shares"):
            plan.temporary(temporary, where(reduction == _NONE, 1, sums), "value")
        plan.parameters(
            classes=scores.classes,
            inner=scores.inner,
            count=scores.total,
            sums=sums,
            ignore=ignore_index,
        )
        plan.constants(REDUCTION=reduction)
        plan.launch("nll_loss_parts", groups=sums)
        plan.launch("nll_loss_total", groups=1)

    return nll_loss


def _nll_loss_backward(images: bool) -> Definition:
    name = "nll_loss2d_backward" if images else "nll_loss_backward"

    @_define_nll(f"{name} {name}.grad_input")
    def nll_loss_backward(
        plan: Plan,
        self: SymTensor,
        target: SymTensor,
        grad_output: SymTensor,
        weight: SymTensor,
        total_weight: SymTensor,
        reduction: SymInt,
        ignore_index: SymInt,
    ) -> None:
        scores = _scores_of(self)
        plan.require(
            _has_scores(self, images),
            target.shape == scores.shape,
            fits(weight, [scores.classes]),
            where(
                reduction == _NONE,
                grad_output.shape == scores.shape,
                (grad_output.numel() == 1) & (grad_output.dim() <= 1),
            ),
            total_weight.numel() == 1,
        )
        plan.result("grad", self.shape)
        plan.parameters(classes=scores.classes, inner=scores.inner, ignore=ignore_index)
        plan.constants(REDUCTION=reduction)
        of_processor = where(scores.inner == 1, scores.total, self.numel() // scores.inner)
        items = where(plan.on_processor, of_processor, self.numel())
        plan.launch("nll_loss_backward", where(self.numel() == 0, 0, items))

    return nll_loss_backward


class _Rows(NamedTuple):
    """The rows of a margin loss's input of shape (rows, classes), (classes) or ()."""

    classes: SymInt
    total: SymInt
    shape: SymInts  # without the classes


def _rows_of(plan: Plan, self: SymTensor) -> _Rows:
    plan.require(self.dim() <= 2, self.numel() > 0)
    count = where(self.dim() == 2, self.size(0), 1)
    return _Rows(self.size(-1), count, where(self.dim() == 2, [count], []))


def _result_of_margins(
    plan: Plan, rows: _Rows, self: SymTensor, reduction: SymInt, gradient: Symbol | None = None
) -> None:
    """Makes the losses, or with a gradient of them that of the input."""
    if gradient is None:
        plan.result("out", where(reduction == _NONE, rows.shape, []))
        return
    grad_output = plan.operand("grad_output", gradient)
    each = (reduction == _NONE) & (self.dim() == 2)
    plan.require(where(each, grad_output.shape == rows.shape, grad_output.numel() == 1))
    plan.result("grad")


def _launch_margins(
    plan: Plan, kernel: str, rows: _Rows, reduction: SymInt, *, forward: bool
) -> None:
    if forward:
        plan.temporary("losses", rows.total, "value")
    plan.parameters(
        classes=rows.classes,
        loss_count=rows.total,
        divisor=where(reduction == _MEAN, rows.total, 1),
    )
    plan.constants(FORWARD=forward, REDUCTION=reduction)
    plan.launch(kernel, rows.total)
    if forward:
        plan.launch("loss_total", groups=1, when=reduction != _NONE)


def _multi_margin_loss(forward: bool) -> Definition:
    name = "multi_margin_loss" if forward else "multi_margin_loss_backward"

    @_define_margins(
        f"{name} {name}.{'out' if forward else 'grad_input'}",
        "losses",
        reports=RuntimeError(_NO_CLASS),
    )
    def loss(
        plan: Plan,
        self: SymTensor,
        target: SymTensor,
        weight: SymTensor,
        p: SymFloat,
        margin: SymFloat,
        reduction: SymInt,
        **rest: Symbol,
    ) -> None:
        rows = _rows_of(plan, self)
        rows = rows._replace(shape=where(target.dim() == 1, [rows.total], []))
        plan.require(
            (p == 1) | (p == 2),
            (target.numel() == rows.total) & (target.dim() <= 1),
            fits(weight, [rows.classes]),
        )
        _result_of_margins(plan, rows, self, reduction, rest.get("grad_output"))
        plan.parameters(distance=margin)
        plan.constants(P=as_int(p))
        _launch_margins(plan, "multi_margin_loss", rows, reduction, forward=forward)

    return loss


def _multilabel_margin_loss(forward: bool) -> Definition:
    name = f"multilabel_margin_loss_{'forward' if forward else 'backward'}"

    @_define_margins(
        f"{name} {name}.{'output' if forward else 'grad_input'}",
        "losses",
        reports=RuntimeError(_NO_CLASS) if forward else None,
    )
    def loss(
        plan: Plan, self: SymTensor, target: SymTensor, reduction: SymInt, **rest: Symbol
    ) -> None:
        rows = _rows_of(plan, self)
        plan.require(target.shape == self.shape)
        if not forward:
            plan.require(plan.operand("is_target", rest["is_target"]).shape == self.shape)
        _result_of_margins(plan, rows, self, reduction, rest.get("grad_output"))
        if forward:
            plan.result("is_target_of", target.shape)
        _launch_margins(plan, "multilabel_margin_loss", rows, reduction, forward=forward)

    return loss


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *(
            define(loss)
            for loss in _LOSSES
            for define in (_unreduced, _reduced, _elementwise_backward)
        ),
        *(_nll_loss(images) for images in (False, True)),
        *(_nll_loss_backward(images) for images in (False, True)),
        *(
            define(forward)
            for define in (_multi_margin_loss, _multilabel_margin_loss)
            for forward in (True, False)
        ),
    ]
