"""Pointwise operators: an expression in OpenCL C for each result
(csrc/device_kernels/pointwise/pointwise.cpp makes the kernels)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from torch_outboard.ops.definition import (
    Definition,
    call_scalar_functions,
    caller_location,
    definition_of,
    dtype_bits,
)
from torch_outboard.ops.functions.table import functions

LERP = (
    "((fabs(weight) < C(0.5)) ? self + weight * (end - self)"
    " : end - (end - self) * (C(1) - weight))"
)
# Overloads of most operators, with names for {}.
OUT, FORMS = "{} {}.out", "{} {}_ {}.out"
# Names of arguments, separated by blanks, or a dictionary from arguments to names in expressions.
Names = str | Mapping[str, str]


@dataclass(kw_only=True, eq=False, repr=False)
class Pointwise(Definition):
    """An expression of scalar functions over broadcast operands."""

    kind: ClassVar[str] = "pointwise"
    # Arguments: tensors, or numbers that promote like 0-dim tensors, or lists of either: then the
    # expression is computed for each element. And what the expressions call them.
    operands: list[str]
    names: list[str]
    masks: list[str] = field(default_factory=list)  # of `names`: bool conditions, not promoted
    # Further arguments that are numbers or flags, and what the expressions call them.
    scalars: list[str]
    scalar_names: list[str]
    # By scalar name: the number where the argument is None or the overload does not have it;
    # without an entry the call is declined.
    absent: dict[str, float] = field(default_factory=dict)
    promoting: list[str] = field(default_factory=list)  # of `scalar_names`, in the promotion
    expressions: list[str]  # one per result, in OpenCL C; functions are ob_<name>(...)
    result: Literal["value", "mask", "real"] = "value"  # mask: of a comparison; real: of complex
    # The dtype of the computation: the common dtype; the same, but the default dtype for integers;
    # the complex dtype of the common one; that of the first operand, else of the given output; that
    # of all operands, calls with different ones are declined.
    types: Literal["promote", "float", "complex", "self", "same"] = "promote"
    dtypes: int = -1  # bits of the served common dtypes
    any_output: bool = False  # results may be cast to any dtype of a given output
    same_output: bool = False  # given outputs of another dtype than the result are declined
    # Of `names`, the divisor of integers: if an element of it is 0, the device-side assert is set,
    # and the next wait raises RuntimeError.
    divisor: str = ""
    scalar: bool = False  # the expressions are valid for scalars only, not for vectors
    may_overlap: bool = False  # the output may overlap itself, as in fills
    # Outputs get the size of the first operand without PyTorch's warning.
    resizes_silently: bool = False
    rounded: bool = False  # numbers are rounded to the common dtype, also where values are wider
    strict: bool = False  # scalars must be of a kind that the dtype can hold, as for alpha
    # ---- For operators over lists
    # Of `names`: lists that are updated, one per expression, of an operator without results. Lists
    # have tensors of the same sizes and dtype then, and other tensors have one element.
    updated: list[str] = field(default_factory=list)
    uniform: list[str] = field(default_factory=list)  # of `names`: lists of one element each
    derived: dict[str, int] = field(default_factory=dict)  # further numbers: names and nodes
    # Names and expressions of scalars, in plain OpenCL C: computed from uniform elements and
    # numbers, once for many elements.
    once: dict[str, str] = field(default_factory=dict)
    # An argument that is a float32 tensor of one element, and a condition: if it holds for an
    # element, the tensor becomes 1.
    flag: str = ""
    flag_if: str = ""


def pointwise(
    overloads: str,
    operands: Names,
    expressions: str | list[str],
    dtypes: Iterable[torch.dtype],
    *,
    scalars: Names = "",
    **fields: Any,
) -> Definition:
    """Defines a pointwise operator.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: tensor arguments; see `Names`.
        expressions: one per result, in OpenCL C; functions of the table are called by their names.
        dtypes: served common dtypes.
        scalars: numbers and flags; see `Names`.
        fields: of Pointwise, and of definition_of.
    """
    sources = [expressions] if isinstance(expressions, str) else expressions
    arguments, names = _renamed(operands)
    numbers, scalar_names = _renamed(scalars)
    return definition_of(
        Pointwise,
        overloads,
        location=caller_location(),
        operands=arguments,
        names=names,
        scalars=numbers,
        scalar_names=scalar_names,
        expressions=[call_scalar_functions(source, functions()) for source in sources],
        dtypes=dtype_bits(dtypes),
        **fields,
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
    **fields: Any,
) -> Definition:
    """A sum or a difference with a factor `alpha`, which is 1 for overloads without it."""
    left, right = _renamed(operands)[1]
    return pointwise(
        overloads,
        operands,
        f"{function}({left}, mul(alpha, {right}))",
        dtypes,
        scalars="alpha",
        strict=True,
        rounded=True,
        absent={"alpha": 1.0},
        **fields,
    )


def calls(
    forms: str,
    names: Names,
    operands: str,
    dtypes: Iterable[torch.dtype],
    **fields: Any,
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
            **fields,
        )
        for operator, function in zip(*_renamed(names), strict=True)
    ]


def unary(names: Names, dtypes: Iterable[torch.dtype], **fields: Any) -> list[Definition]:
    """Scalar functions as operators `name`, `name_` and `name.out`."""
    return calls(FORMS, names, "self", dtypes, **fields)


def binary(
    names: Names,
    dtypes: Iterable[torch.dtype],
    out: str = "out",
    **fields: Any,
) -> list[Definition]:
    """Scalar functions as operators `name.Tensor`, `name_.Tensor` and `name.out` (or `out`)."""
    return calls("{}.Tensor {}_.Tensor {}." + out, names, "self other", dtypes, **fields)
