"""Pointwise operators: the rows of the engine `pointwise` (csrc/engines/pointwise.h)."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_outboard.ops.row import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    Row,
    Value,
    call_scalar_functions,
    dtype_bits,
    qualified,
)
from torch_outboard.ops.scalar_functions import FUNCTIONS

NUMBERS = (*FLOATS, *INTEGERS)


def pointwise(
    overloads: str,
    operands: str,
    expressions: str | list[str],
    dtypes: Iterable[torch.dtype],
    **properties: Value,
) -> Row:
    """A row.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: names of arguments, separated by blanks; `argument:name` gives another name to
            the expressions.
        expressions: one per result, in OpenCL C; functions of the table are called by their names.
        dtypes: the common dtypes that are served.
        properties: as in pointwise.h.
    """
    listed = [operand.partition(":") for operand in operands.split()]
    texts = [expressions] if isinstance(expressions, str) else expressions
    return {
        "engine": "pointwise",
        "overloads": qualified(overloads),
        "operands": [argument for argument, _, _ in listed],
        "names": [name or argument for argument, _, name in listed],
        "expressions": [call_scalar_functions(text, FUNCTIONS) for text in texts],
        "dtypes": dtype_bits(dtypes),
        **properties,
    }


def rows() -> list[Row]:
    """Every row."""
    return [
        pointwise(
            "add.Tensor add_.Tensor add.out",
            "self other",
            "add(self, alpha * other)",
            (*NUMBERS, *BOOL),
            scalars=["alpha"],
            strict=True,
        ),
        pointwise("exp exp_ exp.out", "self", "exp(self)", FLOATS, types="float"),
    ]
