"""A scalar function in OpenCL C: what its texts are, and what they can use.

A function is text for real floating-point values, for integers (bool included) and for complex
values; None where it makes no sense. In the texts

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


Functions = dict[str, ScalarFunction]

ONE, TWO, THREE = "T a", "T a, T b", "T a, T b, T c"
