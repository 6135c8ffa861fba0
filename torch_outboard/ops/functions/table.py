"""The table of scalar functions in OpenCL C, under the names of Inductor's operation handlers.

What a text can use is said in scalar_function.py. NaN, infinities, signs of zeros and rounding are
as on CPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from torch_outboard.ops.functions import (
    bessel,
    complex_values,
    elementary,
    incomplete_gamma,
    polynomials,
    single_precision,
    special,
)
from torch_outboard.ops.functions.scalar_function import Functions, ScalarFunction


@cache
def scalar_only() -> Functions:
    """Those that hold for scalars alone: they branch, or loop until nothing changes any more."""
    return {
        **special.SCALAR,
        **incomplete_gamma.INCOMPLETE,
        **polynomials.POLYNOMIALS,
    }


@cache
def costly() -> frozenset[str]:
    """Names of those that take as long as several loads, on a processor."""
    groups = (
        elementary.EXPONENTIAL, elementary.TRIGONOMETRIC, special.SPECIAL, bessel.BESSEL,
        scalar_only(),
    )  # fmt: skip
    return frozenset().union(*groups, ["pow"]) - {"sqrt", "rsqrt"}


@cache
def functions() -> Functions:
    """The whole table."""
    table = {
        **elementary.ARITHMETIC,
        **elementary.ROUNDING,
        **elementary.EXPONENTIAL,
        **elementary.TRIGONOMETRIC,
        **elementary.COMPARISON,
        **elementary.BITWISE,
        **special.SPECIAL,
        **bessel.BESSEL,
        **complex_values.HELPERS,
        **scalar_only(),
    }
    for name, text in single_precision.TEXTS.items():
        table[name] = replace(table[name], real=text)
    for name, text in complex_values.TEXTS.items():
        table[name] = replace(table[name], complex=text)
    return table


def texts() -> dict[str, dict[str, str]]:
    """For kernel generators: name, kind of values, definition."""
    result: dict[str, dict[str, str]] = {}
    for name, function in functions().items():
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
    return f"static inline {returned} ob_{name}({function.parameters}) {{\n{statements}\n}}\n"
