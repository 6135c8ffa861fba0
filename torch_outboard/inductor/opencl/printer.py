"""Prints sizes and indices in OpenCL C.

Divided indices are never negative, so C's division and remainder are correct. An expression that
may be negative is a FloorDiv or a PythonMod.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod

import sympy
from sympy.printing.precedence import PRECEDENCE
from torch.utils._sympy.printers import ExprPrinter

from torch_outboard.inductor.opencl.value_types import is_vector


class OpenCLPrinter(ExprPrinter):
    """Prints expressions over scalars, and over vectors of integers where variables are vectors."""

    def _operand(self, expression: sympy.Expr) -> str:
        return str(self.parenthesize(expression, PRECEDENCE["Atom"] - 0.5))

    def _print_Integer(self, expr: sympy.Integer) -> str:
        number = int(expr)
        if -(1 << 31) < number < 1 << 31:
            return str(number)
        return "LONG_MIN" if number == -(1 << 63) else f"{number}L"

    def _print_FloorDiv(self, expr: sympy.Expr) -> str:
        x, divisor = expr.args
        if expr.is_nonnegative or x.is_nonnegative or isinstance(x, sympy.Symbol):
            return f"({self._operand(x)} / {self._operand(divisor)})"
        return self._divide_down(x, divisor)

    def _divide_down(self, x: sympy.Expr, divisor: sympy.Expr) -> str:
        a, b = self._operand(x), self._operand(divisor)
        if is_vector(a) or is_vector(b):
            # C's remainder has the sign of a; the divisor is positive.
            return f"(({a} - (({a} % {b} + {b}) % {b})) / {b})"
        return f"ob_floor_divide({a}, {b})"

    def _print_ModularIndexing(self, expr: sympy.Expr) -> str:
        x, divisor, modulus = expr.args
        source = self._operand(x)
        if divisor != 1:
            source = f"({source} / {self._operand(divisor)})"
        return f"({source} % {self._operand(modulus)})"

    def _print_PythonMod(self, expr: sympy.Expr) -> str:
        a, b = (self._operand(arg) for arg in expr.args)
        if expr.args[0].is_nonnegative and expr.args[1].is_nonnegative:
            return f"({a} % {b})"
        return f"(({a} % {b} + {b}) % {b})"

    def _fold(self, comparison: str, expr: sympy.Expr) -> str:
        sources = [self._operand(arg) for arg in expr.args]
        result = sources[0]
        for source in sources[1:]:
            # The operator selects lane by lane if the condition is a vector.
            result = f"(({result}) {comparison} ({source}) ? ({result}) : ({source}))"
        return result

    _print_Min = partialmethod(_fold, "<")
    _print_Max = partialmethod(_fold, ">")

    def _print_Float(self, expr: sympy.Float) -> str:
        if expr.is_integer:
            return f"((ob_real){int(expr)})"
        return f"((ob_real){float(expr)!r})"

    def _print_RoundDecimal(self, expr: sympy.Expr) -> str:
        number, digits = expr.args
        factor = f"(ob_real)1e{abs(int(digits))}"
        up, down = ("*", "/") if digits >= 0 else ("/", "*")
        return f"(rint((ob_real)({self._print(number)}) {up} {factor}) {down} {factor})"

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return f"((ob_real){expr.p} / (ob_real){expr.q})"

    def _all_of(self, operator: str, expr: sympy.Expr) -> str:
        return "(" + f" {operator} ".join(f"({self._print(x)})" for x in expr.args) + ")"

    _print_And = partialmethod(_all_of, "&&")
    _print_Or = partialmethod(_all_of, "||")

    def _print_Piecewise(self, expr: sympy.Expr) -> str:
        source = ""
        for value, condition in reversed(expr.args):
            source = (
                f"(({self._print(condition)}) ? ({self._print(value)}) : {source})"
                if source
                else f"({self._print(value)})"
            )
        return source


_REAL = "(ob_real)({0})"
# Sources by kind of expression; `{0}` is the first argument.
_SOURCES = {
    "Mod": "({0} % {1})",
    "Where": "({0} ? {1} : {2})",
    "Abs": "({0} < 0 ? -{0} : {0})",
    "Not": "(!{0})",
    "BooleanTrue": "1",
    "BooleanFalse": "0",
    "IntTrueDiv": f"({_REAL} / (ob_real)({{1}}))",
    "FloatPow": f"pow({_REAL}, (ob_real)({{1}}))",
    "PowByNatural": "ob_natural_power({0}, {1})",
    "ToFloat": f"({_REAL})",
    "FloorToInt": f"((long)floor({_REAL}))",
    "floor": f"((long)floor({_REAL}))",
    "CeilToInt": f"((long)ceil({_REAL}))",
    "ceiling": f"((long)ceil({_REAL}))",
    "TruncToInt": f"((long)trunc({_REAL}))",
    "RoundToInt": f"((long)rint({_REAL}))",
    "TruncToFloat": f"trunc({_REAL})",
    "Infinity": "((ob_real)INFINITY)",
    "NegativeInfinity": "((ob_real)-INFINITY)",
    "NaN": "((ob_real)NAN)",
}
_FUNCTIONS = (
    "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log",
    "asinh", "log2",
)  # fmt: skip
_SOURCES |= {f"OpaqueUnaryFn_{name}": f"{name}({_REAL})" for name in _FUNCTIONS}


def _printed(source: str) -> Callable[[OpenCLPrinter, sympy.Expr], str]:
    return lambda self, expr: source.format(*map(self._operand, expr.args))


for _kind, _source in _SOURCES.items():
    setattr(OpenCLPrinter, f"_print_{_kind}", _printed(_source))

print_expression = OpenCLPrinter().doprint
