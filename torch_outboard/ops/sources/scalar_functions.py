"""What scalar functions and expressions are written with, for one type of values."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from torch_outboard.ops.functions.table import definitions_called_by
from torch_outboard.ops.sources.value_types import mask_type, real_dtype, value_type


def scalar_functions(dtype: torch.dtype, lanes: int, source: str) -> str:
    """Definitions of T, S, M, C and others, and of the functions of the table that a source calls.

    See ops/functions/scalar_function.py for what they mean.

    Raises:
        ValueError: if a function does not exist for such values.
    """
    t, mask = value_type(dtype, lanes), mask_type(dtype, lanes)
    defined = {"T": t, "M": mask, "C(x)": "((T)(x))", "S": value_type(real_dtype(dtype))}
    if dtype == torch.bool:
        defined["OB_BOOL"] = ""
    if dtype in (torch.float64, torch.complex128):
        defined["OB_DOUBLE"] = ""
    if dtype == torch.float32:
        defined |= {"OB_BITS(x)": f"as_{mask}(x)", "OB_VALUE(x)": f"as_{t}(x)"}
    defined |= {"OB_ANY(m)": "(m)" if lanes == 1 else "any(m)", "OB_WIDTH": str(lanes)}
    kind = "complex" if dtype.is_complex else "float" if dtype.is_floating_point else "integer"
    return defines(defined) + "".join(definitions_called_by(source, kind).values())


def defines(values: Mapping[str, str | int]) -> str:
    """Macros."""
    return "".join(f"#define {name} {value}".rstrip() + "\n" for name, value in values.items())
