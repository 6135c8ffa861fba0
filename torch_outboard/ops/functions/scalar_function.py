"""A scalar function in OpenCL C: its sources, the types and macros that they can use, and source of
polynomials for scalars and vectors alike.

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

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial


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
one, two = partial(ScalarFunction, ONE), partial(ScalarFunction, TWO)

_SINGLE = 3e-10  # smaller coefficients, relative to the largest, are below single precision


def expansion(result: str, argument: str, coefficients: Sequence[float]) -> str:
    """Defines `result`, the sum of coefficient k times T_k(argument), by Clenshaw's recurrence
    (DLMF 3.11.30). Arguments outside of [-1, 1] give an arbitrary number and do not trap."""
    largest = max(map(abs, coefficients))
    count = len(coefficients)
    while abs(coefficients[count - 1]) < _SINGLE * largest:
        count -= 1
    return (
        f"T {result};\n{{\nconst T t = {argument};\nconst T u = t + t;\n"
        + by_precision(_clenshaw(result, coefficients), _clenshaw(result, coefficients[:count]))
        + "}\n"
    )


def _clenshaw(result: str, coefficients: Sequence[float]) -> str:
    source = ""
    before, last = "C(0)", "C(0)"
    for k in range(len(coefficients) - 1, 0, -1):
        source += f"const T b{k} = u * {last} - {before} + {constant(coefficients[k])};\n"
        before, last = last, f"b{k}"
    return source + f"{result} = t * {last} - {before} + {constant(coefficients[0])};\n"


def by_precision(double: str, single: str) -> str:
    """Source with one variant for double and one for single precision."""
    return f"\n#ifdef OB_DOUBLE\n{double}\n#else\n{single}\n#endif\n"


def polynomial(argument: str, coefficients: Sequence[float]) -> str:
    """An expression: the sum of coefficient k times argument^k, by Horner's rule."""
    source = constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        source = f"({source} * {argument} + {constant(c)})"
    return source


def constant(value: float) -> str:
    """A constant of type `T`."""
    return f"C({float(value)!r})"


def minus_zero_of(argument: str, zero: tuple[float, float]) -> str:
    """An expression: the argument minus a zero, given as a number and its rounding error."""
    high, low = zero
    single: float = struct.unpack("f", struct.pack("f", high))[0]
    return f"(({argument} - OB_HIGH({high!r}, {single!r})) - OB_HIGH({low!r}, {high - single!r}))"


# OB_HIGH(d, s) is d in double and s in single precision.
PRECISIONS = by_precision(
    "#undef OB_HIGH\n#define OB_HIGH(d, s) C(d)", "#undef OB_HIGH\n#define OB_HIGH(d, s) C(s)"
)
