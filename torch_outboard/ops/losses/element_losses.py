"""Elementwise losses between an input and a target of the same shape, and their gradients."""

from __future__ import annotations

from typing import NamedTuple

from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymTensor,
    ceil_div,
    fits,
    maximum,
    where,
)
from torch_outboard.ops.template import Plan, template

# Values of `reduction`; 0 is no reduction.
_MEAN, _SUM = 1, 2


class _Loss(NamedTuple):
    """An elementwise loss of arguments with the same shape."""

    name: str
    number: int  # of the function in loss_functions.cl
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


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [row for loss in _LOSSES for row in (_unreduced(loss), _reduced(loss), _backward(loss))]


def _unreduced(loss: _Loss) -> Definition:
    @template(loss.overloads, "loss_functions loss_each", dtypes=FLOATS)
    def unreduced(
        plan: Plan, self: SymTensor, target: SymTensor, reduction: SymInt, **rest: Symbol
    ) -> None:
        plan.require(~_reduces(reduction))
        _take_arguments(plan, loss, self, target, reduction, rest)
        plan.result("out", like=self)
        plan.launch("loss_each", self.numel())

    return unreduced


def _reduced(loss: _Loss) -> Definition:
    @template(
        loss.overloads, "rows loss_functions loss_parts loss_total", dtypes=FLOATS, vectors=True
    )
    def reduced(
        plan: Plan, self: SymTensor, target: SymTensor, reduction: SymInt, **rest: Symbol
    ) -> None:
        plan.require(_reduces(reduction))
        _take_arguments(plan, loss, self, target, reduction, rest)
        count = self.numel()
        part = maximum(4096, ceil_div(count, 64))
        parts = ceil_div(count, part)
        plan.result("out", [])
        plan.temporary("losses", maximum(parts, 1), "value")
        plan.parameters(part=part, count=count, loss_count=parts, divisor=_divisor(self, reduction))
        plan.launch("loss_parts", groups=parts)
        plan.launch("loss_total", groups=1)

    return reduced


def _backward(loss: _Loss) -> Definition:
    @template(
        f"{loss.name}_backward {loss.backward_out}", "loss_functions loss_backward", dtypes=FLOATS
    )
    def backward(
        plan: Plan,
        self: SymTensor,
        target: SymTensor,
        grad_output: SymTensor,
        reduction: SymInt,
        **rest: Symbol,
    ) -> None:
        _take_arguments(plan, loss, self, target, reduction, rest)
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


def _take_arguments(
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
