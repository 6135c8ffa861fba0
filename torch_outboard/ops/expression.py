"""Pointwise operators: an expression in OpenCL C for each result
(csrc/device_kernels/pointwise/pointwise.h makes the kernels)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, Unpack, cast

import torch

from torch_outboard.ops.definition import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    Definition,
    Properties,
    call_scalar_functions,
    caller_location,
    dtype_bits,
    qualified,
)
from torch_outboard.ops.functions.table import functions
from torch_outboard.ops.requirements import Requirement, served_calls

REALS = (*FLOATS, *INTEGERS)  # without bool
ALL = (*REALS, *BOOL, *COMPLEX)
# Names of arguments, separated by blanks, or a dictionary from arguments to names in expressions.
Names = str | Mapping[str, str]


class PointwiseProperties(Properties, total=False):
    """Properties described in csrc/device_kernels/pointwise/pointwise.h.

    Attributes:
        scalars: names of numbers and flags, separated by blanks.
        types: the dtype of the computation.
        result: the kind of results.
    """

    scalars: Names
    types: Literal["promote", "float", "complex", "self", "same"]
    result: Literal["value", "mask", "real"]
    absent: dict[str, str]
    promoting: list[str]
    masks: list[str]
    divisor: str
    meta: str
    any_output: bool
    same_output: bool
    scalar: bool
    may_overlap: bool
    resizes_silently: bool
    some_scalar: bool
    rounded: bool
    strict: bool


def pointwise(
    overloads: str,
    operands: Names,
    expressions: str | list[str],
    dtypes: Iterable[torch.dtype],
    *,
    requires: Mapping[str, Requirement] | None = None,
    **properties: Unpack[PointwiseProperties],
) -> Definition:
    """Defines a pointwise operator.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: tensor arguments; see `Names`.
        expressions: one per result, in OpenCL C; functions of the table are called by their names.
        dtypes: served common dtypes.
        requires: requirements on arguments; see requirements.py.
    """
    definition: Definition = {
        "kind": "pointwise",
        "location": caller_location(),
        "overloads": qualified(overloads),
        "expressions": [
            call_scalar_functions(text, functions())
            for text in ([expressions] if isinstance(expressions, str) else expressions)
        ],
        "dtypes": dtype_bits(dtypes),
    }
    definition["operands"], definition["names"] = _renamed(operands)
    definition.update(cast("Definition", properties))
    if "scalars" in properties:
        definition["scalars"], definition["scalar_names"] = _renamed(properties["scalars"])
    return {**definition, **served_calls(qualified(overloads)[0], requires)}


def _renamed(names: Names) -> tuple[list[str], list[str]]:
    known = (
        dict(zip(names.split(), names.split(), strict=True)) if isinstance(names, str) else names
    )
    return list(known), list(known.values())


def with_alpha(
    overloads: str,
    operands: Names,
    expression: str,
    dtypes: Iterable[torch.dtype],
    requires: Mapping[str, Requirement] | None = None,
) -> Definition:
    """A sum or a difference with a factor `alpha`, which is 1 for overloads without it."""
    return pointwise(
        overloads,
        operands,
        expression,
        dtypes,
        requires=requires,
        scalars="alpha",
        strict=True,
        rounded=True,
        absent={"alpha": "1"},
    )


def unary(
    names: Names,
    dtypes: Iterable[torch.dtype],
    *,
    requires: Mapping[str, Requirement] | None = None,
    **properties: Unpack[PointwiseProperties],
) -> list[Definition]:
    """Scalar functions as operators `name`, `name_` and `name.out`; see `Names`."""
    made = []
    for operator, function in zip(*_renamed(names), strict=True):
        overloads = f"{operator} {operator}_ {operator}.out"
        made.append(
            pointwise(
                overloads, "self", f"{function}(self)", dtypes, requires=requires, **properties
            )
        )
    return made


def binary(
    names: Names,
    dtypes: Iterable[torch.dtype],
    out: str = "out",
    *,
    requires: Mapping[str, Requirement] | None = None,
    **properties: Unpack[PointwiseProperties],
) -> list[Definition]:
    """Scalar functions as operators `name.Tensor`, `name_.Tensor` and `name.out` (or `out`)."""
    made = []
    for operator, function in zip(*_renamed(names), strict=True):
        overloads = f"{operator}.Tensor {operator}_.Tensor {operator}.{out}"
        made.append(
            pointwise(
                overloads,
                "self other",
                f"{function}(self, other)",
                dtypes,
                requires=requires,
                **properties,
            )
        )
    return made
