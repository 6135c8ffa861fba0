"""The table of scalar functions in OpenCL C, under the names of Inductor's operation handlers.

scalar_function.py lists what a source can use. NaN, infinities, signs of zeros and rounding are as
on CPU.
"""

import re
from dataclasses import replace
from functools import cache

from torch_outboard.ops.functions import (
    bessel,
    complex_values,
    elementary,
    single_precision,
    special,
)
from torch_outboard.ops.functions.scalar_function import Functions


@cache
def scalar_only() -> Functions:
    """Functions for scalars only: they branch, or loop until the value converges."""
    return {**special.SCALAR, **special.INCOMPLETE, **special.POLYNOMIALS}


@cache
def costly() -> frozenset[str]:
    """Names of functions that take as long as several loads on a CPU."""
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
    for name, source in single_precision.SOURCES.items():
        table[name] = replace(table[name], real=source)
    for name, source in complex_values.SOURCES.items():
        table[name] = replace(table[name], complex=source)
    return table


def definitions_called_by(source: str, kind: str) -> dict[str, str]:
    """Definitions of the functions that a source calls, by name; callees precede callers.

    Args:
        kind: the kind of values: "float", "integer" or "complex".

    Raises:
        ValueError: if a function does not exist for such values.
    """
    found: dict[str, str] = {}
    open_ = set()

    def define(source: str) -> None:
        for name in _CALL.findall(source):
            if name in found or name in open_ or name not in functions():
                continue
            open_.add(name)
            definition = _definition(name, kind)
            define(definition)
            found[name] = definition

    define(source)
    return found


_CALL = re.compile(r"\bob_(\w+)")


@cache
def _definition(name: str, kind: str) -> str:
    function = functions()[name]
    body = {"float": function.real, "integer": function.integer, "complex": function.complex}[kind]
    if body is None:
        raise ValueError(f"the scalar function '{name}' does not exist for {kind} values")
    returned = function.result
    if kind == "complex" and function.complex_result is not None:
        returned = function.complex_result
    statements = body if "return" in body else f"return {body};"
    return f"static inline {returned} ob_{name}({function.parameters}) {{\n{statements}\n}}\n"
