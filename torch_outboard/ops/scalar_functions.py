"""Scalar functions in OpenCL C, under the names of Inductor's operation handlers.

A function is text for real floating-point values, for integers (bool included) and for complex
values; None where it makes no sense. In the texts

- `T` is the value type, a scalar or a vector, `S` its element, `M` what comparisons give: int for
  scalars (1 for true), a vector of signed integers of the element's size (-1 for true) for vectors.
  `condition ? a : b` works for both; masks are combined with `&`, `|` and `!`.
- `C(x)` is a constant of type `T`.
- for complex values `T` is float2 or double2, never a vector of them, and `S` is real.
- functions of the table call each other by name.
- OB_BOOL and OB_DOUBLE are defined where values are bool (uchar, 0 or 1) and of double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_outboard.ops.row import call_scalar_functions


@dataclass(frozen=True)
class ScalarFunction:
    """A function; a text without `return` is the expression that it returns.

    Args:
        parameters: as in C.
        real: text for floating-point values.
        integer: text for integers and bool.
        complex: text for complex values.
        result: what it returns.
        complex_result: the same for complex values, if it differs.
    """

    parameters: str
    real: str | None = None
    integer: str | None = None
    complex: str | None = None
    result: str = "T"
    complex_result: str | None = None


FUNCTIONS: dict[str, ScalarFunction] = {}

_A, _AB, _ABC = "T a", "T a, T b", "T a, T b, T c"


def _define(name: str, *arguments: str | None, **named: str | None) -> None:
    FUNCTIONS[name] = ScalarFunction(*arguments, **named)  # type: ignore[arg-type]


_define("add", _AB, "a + b", "a + b", "a + b")
_define("exp", _A, "exp(a)")


def texts() -> dict[str, dict[str, str]]:
    """For the engines: name, kind of values, definition."""
    result: dict[str, dict[str, str]] = {}
    for name, function in FUNCTIONS.items():
        kinds = {"float": function.real, "integer": function.integer, "complex": function.complex}
        result[name] = {
            kind: _definition(name, function, kind, body)
            for kind, body in kinds.items()
            if body is not None
        }
    return result


def _definition(name: str, function: ScalarFunction, kind: str, body: str) -> str:
    returned = function.result
    if kind == "complex" and function.complex_result is not None:
        returned = function.complex_result
    statements = body if "return" in body else f"return {body};"
    called = call_scalar_functions(statements, (n for n in FUNCTIONS if n != name))
    return f"static inline {returned} ob_{name}({function.parameters}) {{ {called} }}"
