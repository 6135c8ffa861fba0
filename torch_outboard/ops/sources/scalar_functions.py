"""Macros and scalar functions that expressions use, for one value type, and merged launches."""

from collections.abc import Callable, Mapping

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


# ---- Launch merging
#
# Each work-group of a launch finds its call in the argument `ob_calls`, which has, for each call,
# the number of elements (`size`) and the index behind the last work-group (`end`). Unused calls
# have no work-groups.


def selected_call(calls: int, statements: Callable[[int], str]) -> str:
    """Source of the type `ob_calls` and of the macro OB_SELECT_CALL.

    The macro declares `total`, the elements of the call, and `group`, the index of the work-group
    within the call.

    Args:
        calls: the most calls of a launch.
        statements: statements before the elements of a call are computed.
    """
    cases = []
    for call in range(calls):
        label = "default" if call + 1 == calls else f"case {call}"
        before = f"calls.end[{call - 1}]" if call else "0"
        cases.append(
            f"{label}: {{ {statements(call)} total = calls.size[{call}]; group -= {before}; "
            "break; }"
        )
    search = (
        "uint group = get_group_id(0), call = 0, total; "
        f'_Pragma("unroll") for (uint c = 0; c + 1 < {calls}; ++c) call += group >= calls.end[c];'
    )
    return f"typedef struct {{ uint end[{calls}]; uint size[{calls}]; }} ob_calls;\n" + defines(
        {"OB_SELECT_CALL": f"{search} switch (call) {{ {' '.join(cases)} }}"}
    )
