"""Tensors computed from numbers only."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import COMPLEX, EVERY, FLOATS, Definition
from torch_outboard.ops.symbolic import (
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymTensor,
    as_float,
    as_int,
    ceil,
    floor,
    where,
)
from torch_outboard.ops.template import Plan, template

_define = partial(template, kernels="sequences", shapes_only=("out",), resizes_silently=True)


def _shape_for(out: SymTensor, count: SymInt) -> SymInts:
    """The shape of an `out` with `count` elements, else `[count]`.

    Launches take `count` and not `out.numel()`: a call evaluates a node once, here for the argument
    before it is resized.
    """
    return where(out.numel() == count, out.shape, [count])


def spaced(name: str, dtypes: Iterable[torch.dtype], *, zero_base: bool = True) -> Definition:
    """Evenly spaced numbers, or powers of a base with such exponents; `zero_base`: also of 0."""

    @_define(f"{name}.out", dtypes=dtypes)
    def spaced(
        plan: Plan, start: SymFloat, end: SymFloat, steps: SymInt, out: SymTensor, **rest: Any
    ) -> None:
        logarithmic = "base" in rest
        plan.require(steps >= 0, zero_base or rest["base"] != 0)
        plan.result("out", _shape_for(out, steps))
        plan.parameters(count=steps, start=start, end=end)
        if logarithmic:
            plan.parameters(base=rest["base"])
        plan.constants(LOGARITHMIC=logarithmic)
        plan.launch("linspace", steps)

    return spaced


# Parameters: start, end, step.
Count = Callable[[SymFloat, SymFloat, SymFloat], SymInt]
Condition = Callable[[SymFloat, SymFloat, SymFloat], SymBool]


def arange(
    dtypes: Iterable[torch.dtype],
    count_of: Count,
    *,
    served: Condition | None = None,
    compute: torch.dtype | None = None,
) -> Definition:
    """Numbers from start to end by steps.

    Args:
        count_of: computes the number of elements.
        served: a further condition on calls.
    """

    @_define("arange.start_out", dtypes=dtypes, compute=compute)
    def arange(plan: Plan, start: SymFloat, end: SymFloat, step: SymFloat, out: SymTensor) -> None:
        count = count_of(start, end, step)
        plan.require(
            step != 0,
            where(step > 0, end >= start, end <= start),
            served is None or served(start, end, step),
            count < 1 << 40,
            (out.numel() == 0) | (out.numel() == count),  # PyTorch warns of other outputs
        )
        plan.result("out", _shape_for(out, count))
        plan.scalars(start, step)
        plan.launch("arange", count)

    return arange


def _count(start: SymFloat, end: SymFloat, step: SymFloat) -> SymInt:
    # PyTorch converts the numbers to double first.
    return ceil((as_float(end) - as_float(start)) / as_float(step))


def _count_of_integers(start: SymInt, end: SymInt, step: SymInt) -> SymInt:
    return (end - start + step - where(step > 0, 1, -1)) // step


def _exact_count(start: SymFloat, end: SymFloat, step: SymFloat) -> SymInt:
    return _count_of_integers(as_int(start), as_int(end), as_int(step))


def _truncated(number: SymFloat) -> SymInt:
    return where(number < 0, ceil(number), floor(number))


def _truncated_count(start: SymFloat, end: SymFloat, step: SymFloat) -> SymInt:
    return _count_of_integers(_truncated(start), _truncated(end), _truncated(step))


def _some_have_fractions(start: SymFloat, end: SymFloat, step: SymFloat) -> SymBool:
    return (start != floor(start)) | (end != floor(end)) | (step != floor(step))


def _arange_int64() -> list[Definition]:
    """Counts integers exactly. PyTorch truncates other numbers, since 2.15 only after counting."""
    int64 = (torch.int64,)
    if torch.arange(1, 2.5, dtype=torch.int64, device="cpu").numel() == 1:
        return [
            arange(int64, _truncated_count, served=lambda start, end, step: _truncated(step) != 0)
        ]
    return [
        arange(int64, _exact_count),
        arange(int64, _count, served=_some_have_fractions, compute=torch.int64),
    ]


def eye(overload: str) -> Definition:
    """A unit matrix: square, or with `m` columns."""

    @_define(overload, dtypes=EVERY)
    def eye(plan: Plan, n: SymInt, **rest: Any) -> None:
        columns = rest.get("m", n)
        plan.require(n >= 0, columns >= 0)
        out = plan.result("out", [n, columns])
        plan.parameters(columns=columns)
        plan.constants(IDENTITY=True)
        plan.launch("eye", out.numel())

    return eye


def definitions() -> list[Definition]:
    """Every definition."""
    return [
        arange(FLOATS, _count),
        # Intermediate values may be negative.
        arange((torch.uint8, torch.int8, torch.int16, torch.int32), _count, compute=torch.int64),
        *_arange_int64(),
        spaced("linspace", (*FLOATS, *COMPLEX)),
        spaced("logspace", FLOATS),
        spaced("logspace", COMPLEX, zero_base=False),
        eye("eye.out"),
        eye("eye.m_out"),
        decomposition(
            "fill_.Tensor",
            lambda self, value: self.copy_(value.expand(self.shape)),
            condition=lambda value: value.dim() == 0,
        ),
    ]
