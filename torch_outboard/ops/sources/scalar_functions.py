"""Macros and scalar functions that expressions use, for one value type."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from torch_outboard.ops.functions.table import definitions_called_by
from torch_outboard.ops.sources.value_types import mask_type, real_dtype, value_type


def scalar_functions(dtype: torch.dtype, lanes: int, source: str) -> str:
    """The macros of ops/functions/scalar_function.py, and the functions that a source calls.

    Raises:
        ValueError: if a function does not exist for such values.
    """
    macros = function_macros(
        value_type(real_dtype(dtype)), value_type(dtype, lanes), mask_type(dtype, lanes), lanes
    )
    if dtype == torch.bool:
        macros["OB_BOOL"] = ""
    kind = "complex" if dtype.is_complex else "float" if dtype.is_floating_point else "integer"
    return defines(macros) + "".join(definitions_called_by(source, kind).values())


def function_macros(element: str, value: str, mask: str, lanes: int) -> dict[str, str]:
    """The macros of ops/functions/scalar_function.py, by name and parameters.

    The replacement of a macro with a parameter ends in the parameter and a parenthesis.

    Args:
        element: the element type of values; a real type of OpenCL C.
        value, mask: the types of values and of comparisons.
    """
    macros = {
        "T": value,
        "M": mask,
        "S": element,
        "C(x)": f"({value})(x)",
        "OB_ANY(m)": "(m)" if lanes == 1 else "any(m)",
        "OB_WIDTH": str(lanes),
    }
    is_real = value == element or lanes > 1
    if element == "float" and is_real:
        macros |= {"OB_BITS(x)": f"as_{mask}(x)", "OB_VALUE(x)": f"as_{value}(x)"}
    if element == "double":
        macros["OB_DOUBLE"] = ""
    return macros


def defines(values: Mapping[str, str | int]) -> str:
    """Source that defines macros."""
    return "".join(f"#define {name} {value}".rstrip() + "\n" for name, value in values.items())
