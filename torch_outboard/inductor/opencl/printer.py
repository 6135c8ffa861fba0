"""Prints sizes and indices in OpenCL C.

Divided indices are never negative, so C's division and remainder are correct. An expression that
may be negative is a FloorDiv or a PythonMod.
"""

from __future__ import annotations

from collections.abc import Callable

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
        text = self._operand(x)
        if divisor != 1:
            text = f"({text} / {self._operand(divisor)})"
        return f"({text} % {self._operand(modulus)})"

    def _print_PythonMod(self, expr: sympy.Expr) -> str:
        a, b = (self._operand(arg) for arg in expr.args)
        if expr.args[0].is_nonnegative and expr.args[1].is_nonnegative:
            return f"({a} % {b})"
        return f"(({a} % {b} + {b}) % {b})"

    def _print_Mod(self, expr: sympy.Expr) -> str:
        a, b = (self._operand(arg) for arg in expr.args)
        return f"({a} % {b})"

    def _print_Min(self, expr: sympy.Expr) -> str:
        return self._fold("<", expr)

    def _print_Max(self, expr: sympy.Expr) -> str:
        return self._fold(">", expr)

    def _fold(self, comparison: str, expr: sympy.Expr) -> str:
        texts = [self._operand(arg) for arg in expr.args]
        result = texts[0]
        for text in texts[1:]:
            # The operator selects lane by lane if the condition is a vector.
            result = f"(({result}) {comparison} ({text}) ? ({result}) : ({text}))"
        return result

    def _print_Where(self, expr: sympy.Expr) -> str:
        condition, yes, no = (self._operand(arg) for arg in expr.args)
        return f"(({condition}) ? ({yes}) : ({no}))"

    def _print_Abs(self, expr: sympy.Expr) -> str:
        text = self._operand(expr.args[0])
        return f"({text} < 0 ? -{text} : {text})"

    def _print_IntTrueDiv(self, expr: sympy.Expr) -> str:
        a, b = (self._operand(arg) for arg in expr.args)
        return f"((ob_real)({a}) / (ob_real)({b}))"

    def _print_PowByNatural(self, expr: sympy.Expr) -> str:
        base, exponent = (self._print(arg) for arg in expr.args)
        return f"ob_natural_power({base}, {exponent})"

    def _print_FloatPow(self, expr: sympy.Expr) -> str:
        base, exponent = (self._print(arg) for arg in expr.args)
        return f"pow((ob_real)({base}), (ob_real)({exponent}))"

    def _print_ToFloat(self, expr: sympy.Expr) -> str:
        return f"((ob_real)({self._print(expr.args[0])}))"

    def _print_Float(self, expr: sympy.Float) -> str:
        if expr.is_integer:
            return f"((ob_real){int(expr)})"
        return f"((ob_real){float(expr)!r})"

    def _integer(self, function: str, expr: sympy.Expr) -> str:
        return f"((long){function}((ob_real)({self._print(expr.args[0])})))"

    def _print_FloorToInt(self, expr: sympy.Expr) -> str:
        return self._integer("floor", expr)

    def _print_CeilToInt(self, expr: sympy.Expr) -> str:
        return self._integer("ceil", expr)

    def _print_TruncToInt(self, expr: sympy.Expr) -> str:
        return self._integer("trunc", expr)

    def _print_RoundToInt(self, expr: sympy.Expr) -> str:
        return self._integer("rint", expr)

    _print_floor = _print_FloorToInt
    _print_ceiling = _print_CeilToInt

    def _print_RoundDecimal(self, expr: sympy.Expr) -> str:
        number, digits = expr.args
        factor = f"(ob_real)1e{abs(int(digits))}"
        up, down = ("*", "/") if digits >= 0 else ("/", "*")
        return f"(rint((ob_real)({self._print(number)}) {up} {factor}) {down} {factor})"

    def _print_TruncToFloat(self, expr: sympy.Expr) -> str:
        return self._unary("trunc", expr)

    def _print_Infinity(self, expr: sympy.Expr) -> str:
        return "((ob_real)INFINITY)"

    def _print_NegativeInfinity(self, expr: sympy.Expr) -> str:
        return "((ob_real)-INFINITY)"

    def _print_NaN(self, expr: sympy.Expr) -> str:
        return "((ob_real)NAN)"

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return f"((ob_real){expr.p} / (ob_real){expr.q})"

    def _print_Not(self, expr: sympy.Expr) -> str:
        return f"(!({self._print(expr.args[0])}))"

    def _print_And(self, expr: sympy.Expr) -> str:
        return self._all_of("&&", expr)

    def _print_Or(self, expr: sympy.Expr) -> str:
        return self._all_of("||", expr)

    def _all_of(self, operator: str, expr: sympy.Expr) -> str:
        return "(" + f" {operator} ".join(f"({self._print(x)})" for x in expr.args) + ")"

    def _print_BooleanTrue(self, expr: sympy.Expr) -> str:
        return "1"

    def _print_BooleanFalse(self, expr: sympy.Expr) -> str:
        return "0"

    def _print_Piecewise(self, expr: sympy.Expr) -> str:
        text = ""
        for value, condition in reversed(expr.args):
            text = (
                f"(({self._print(condition)}) ? ({self._print(value)}) : {text})"
                if text
                else f"({self._print(value)})"
            )
        return text

    def _unary(self, function: str, expr: sympy.Expr) -> str:
        return f"{function}((ob_real)({self._print(expr.args[0])}))"


def _opaque(function: str) -> Callable[[OpenCLPrinter, sympy.Expr], str]:
    return lambda self, expr: self._unary(function, expr)


for _name in (
    "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log",
    "asinh", "log2",
):  # fmt: skip
    setattr(OpenCLPrinter, f"_print_OpaqueUnaryFn_{_name}", _opaque(_name))

print_expression = OpenCLPrinter().doprint
