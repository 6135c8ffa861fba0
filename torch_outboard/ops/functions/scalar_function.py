"""A scalar function in OpenCL C: its sources, and the types and macros that they can use.

A function has sources for real floating-point values, for integers (bool included) and for complex
values; None where it makes no sense. In the sources

- `T` is the value type, a scalar or a vector, `S` its element, `M` what comparisons give: int for
  scalars (1 for true), a vector of signed integers of the element's size (-1 for true) for vectors.
  `condition ? a : b` works for both; masks are combined with `&`, `|` and `!`.
- `C(x)` is a constant of type `T`.
- for complex values `T` is float2 or double2, never a vector of them, and `S` is real.
- `ob_<name>(...)` calls a function of the table, `<name>(...)` one of OpenCL C.
- in single precision OB_BITS(x) has the bits of a `T` as an `M`; OB_VALUE(m) is its inverse.
- OB_ANY(m) is whether a mask is true for any element.
- OB_BOOL and OB_DOUBLE are defined where values are bool (uchar, 0 or 1) and of double precision.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScalarFunction:
    """A function; a source without `return` is the returned expression.

    Args:
        parameters: as in C.
        real: source for floating-point values.
        integer: source for integers and bool.
        complex: source for complex values.
        result: the type of the result.
        complex_result: the type of the result for complex values, if it differs.
    """

    parameters: str
    real: str | None = None
    integer: str | None = None
    complex: str | None = None
    result: str = "T"
    complex_result: str | None = None


Functions = dict[str, ScalarFunction]

ONE, TWO, THREE = "T a", "T a, T b", "T a, T b, T c"
