"""How rows of the engine `pointwise` are written (csrc/device_kernels/pointwise/pointwise.h)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from torch_outboard.ops.functions.table import functions
from torch_outboard.ops.requirements import Requirement, served_calls
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

REALS = (*FLOATS, *INTEGERS)  # without bool
ALL = (*REALS, *BOOL, *COMPLEX)


def pointwise(
    overloads: str,
    operands: str,
    expressions: str | list[str],
    dtypes: Iterable[torch.dtype],
    *,
    requires: Mapping[str, Requirement] | None = None,
    **properties: Value,
) -> Row:
    """A row.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: names of arguments, separated by blanks; `argument:name` gives another name to
            the expressions.
        expressions: one per result, in OpenCL C; functions of the table are called by their names.
        dtypes: the common dtypes that are served.
        requires: what arguments have to be, as in requirements.py.
        properties: as in pointwise.h; `scalars` as a text like `operands`.
    """
    row: Row = {
        "engine": "pointwise",
        "overloads": qualified(overloads),
        "expressions": [
            call_scalar_functions(text, functions())
            for text in ([expressions] if isinstance(expressions, str) else expressions)
        ],
        "dtypes": dtype_bits(dtypes),
    }
    row["operands"], row["names"] = _renamed(operands)
    if "scalars" in properties:
        row["scalars"], row["scalar_names"] = _renamed(str(properties.pop("scalars")))
    return row | served_calls(qualified(overloads)[0], requires) | properties


def _renamed(text: str) -> tuple[list[str], list[str]]:
    parts = [part.partition(":") for part in text.split()]
    return [argument for argument, _, _ in parts], [name or argument for argument, _, name in parts]


def unary(
    names: str, dtypes: Iterable[torch.dtype], types: str = "promote", **properties: Any
) -> list[Row]:
    """Operators `name`, `name_`, `name.out` that are scalar functions; `operator:function`."""
    rows = []
    for operator, function in zip(*_renamed(names), strict=True):
        overloads = f"{operator} {operator}_ {operator}.out"
        rows.append(
            pointwise(overloads, "self", f"{function}(self)", dtypes, types=types, **properties)
        )
    return rows


def binary(
    names: str, dtypes: Iterable[torch.dtype], out: str = "out", **properties: Any
) -> list[Row]:
    """Operators with `.Tensor`, `_.Tensor` and `.out` (or `out`); `operator:function`."""
    rows = []
    for operator, function in zip(*_renamed(names), strict=True):
        overloads = f"{operator}.Tensor {operator}_.Tensor {operator}.{out}"
        rows.append(
            pointwise(overloads, "self other", f"{function}(self, other)", dtypes, **properties)
        )
    return rows
