"""Pointwise operators: an expression in OpenCL C for each result
(csrc/device_kernels/pointwise/pointwise.cpp makes the kernels)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, Unpack

import torch

from torch_outboard.ops.definition import (
    Definition,
    call_scalar_functions,
    caller_location,
    dtype_bits,
)
from torch_outboard.ops.functions.table import functions
from torch_outboard.ops.requirements import Requirement, definition_of

LERP = (
    "((fabs(weight) < C(0.5)) ? self + weight * (end - self)"
    " : end - (end - self) * (C(1) - weight))"
)
# Overloads of most operators, with names for {}.
OUT, FORMS = "{} {}.out", "{} {}_ {}.out"
# Names of arguments, separated by blanks, or a dictionary from arguments to names in expressions.
Names = str | Mapping[str, str]


class PointwiseProperties(TypedDict, total=False):
    """Properties described in csrc/device_kernels/pointwise/pointwise.cpp.

    Attributes:
        types: the dtype of the computation.
        result: the kind of results.
    """

    types: Literal["promote", "float", "complex", "self", "same"]
    result: Literal["value", "mask", "real"]
    absent: dict[str, float]
    promoting: list[str]
    masks: list[str]
    divisor: str
    meta: str
    any_output: bool
    same_output: bool
    scalar: bool
    may_overlap: bool
    resizes_silently: bool
    rounded: bool
    strict: bool


def pointwise(
    overloads: str,
    operands: Names,
    expressions: str | list[str],
    dtypes: Iterable[torch.dtype],
    *,
    scalars: Names = "",
    requires: Mapping[str, Requirement] | None = None,
    family: str = "",
    **properties: Unpack[PointwiseProperties],
) -> Definition:
    """Defines a pointwise operator.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: tensor arguments; see `Names`.
        expressions: one per result, in OpenCL C; functions of the table are called by their names.
        dtypes: served common dtypes.
        scalars: numbers and flags; see `Names`.
        requires: requirements on arguments; see requirements.py.
    """
    texts = [expressions] if isinstance(expressions, str) else expressions
    known: dict[str, Any] = {
        "expressions": [call_scalar_functions(text, functions()) for text in texts],
        "dtypes": dtype_bits(dtypes),
    }
    known["operands"], known["names"] = _renamed(operands)
    known["scalars"], known["scalar_names"] = _renamed(scalars)
    return definition_of(
        "pointwise",
        overloads,
        {**known, **properties},
        location=caller_location(),
        requires=requires,
        family=family,
    )


def _renamed(names: Names) -> tuple[list[str], list[str]]:
    known = (
        dict(zip(names.split(), names.split(), strict=True)) if isinstance(names, str) else names
    )
    return list(known), list(known.values())


def with_alpha(
    overloads: str,
    operands: Names,
    function: Literal["add", "sub"],
    dtypes: Iterable[torch.dtype],
    requires: Mapping[str, Requirement] | None = None,
) -> Definition:
    """A sum or a difference with a factor `alpha`, which is 1 for overloads without it."""
    left, right = _renamed(operands)[1]
    return pointwise(
        overloads,
        operands,
        f"{function}({left}, mul(alpha, {right}))",
        dtypes,
        requires=requires,
        scalars="alpha",
        strict=True,
        rounded=True,
        absent={"alpha": 1.0},
    )


def calls(
    forms: str,
    names: Names,
    operands: str,
    dtypes: Iterable[torch.dtype],
    *,
    requires: Mapping[str, Requirement] | None = None,
    **properties: Unpack[PointwiseProperties],
) -> list[Definition]:
    """Scalar functions of all operands as operators: their overloads are `forms` with names for {}.

    `names`: the functions, or a dictionary from operators to functions.
    """
    arguments = ", ".join(operands.split())
    return [
        pointwise(
            forms.replace("{}", operator),
            operands,
            f"{function}({arguments})",
            dtypes,
            requires=requires,
            **properties,
        )
        for operator, function in zip(*_renamed(names), strict=True)
    ]


def unary(
    names: Names, dtypes: Iterable[torch.dtype], **properties: Unpack[PointwiseProperties]
) -> list[Definition]:
    """Scalar functions as operators `name`, `name_` and `name.out`."""
    return calls(FORMS, names, "self", dtypes, **properties)


def binary(
    names: Names,
    dtypes: Iterable[torch.dtype],
    out: str = "out",
    **properties: Unpack[PointwiseProperties],
) -> list[Definition]:
    """Scalar functions as operators `name.Tensor`, `name_.Tensor` and `name.out` (or `out`)."""
    return calls("{}.Tensor {}_.Tensor {}." + out, names, "self other", dtypes, **properties)
