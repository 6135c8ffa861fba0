"""Arithmetic, rounding, elementary functions, comparisons and bits, in OpenCL C.

scalar_function.py lists the types and macros that a source can use.
"""

from torch_outboard.ops.functions.scalar_function import (
    ONE,
    THREE,
    TWO,
    Functions,
    ScalarFunction,
    one,
    two,
)


def _built_in(names: str, parameters: str = ONE) -> Functions:
    """Functions that OpenCL C has under the same name."""
    arguments = ", ".join(p.split()[-1] for p in parameters.split(","))
    return {name: ScalarFunction(parameters, f"{name}({arguments})") for name in names.split()}


def _same(names: str, source: str, parameters: str = ONE, **more: str) -> Functions:
    """Functions with the same source for real values and integers."""
    return {name: ScalarFunction(parameters, source, source, **more) for name in names.split()}


_SAFE_DIVISOR = """
    const M negated = (b == C(-1)) & (C(-1) < C(0));
    const T divisor = (negated | (b == C(0))) ? C(1) : b;
"""

ARITHMETIC: Functions = {
    **_same("identity", "a", complex="a"),
    **_same("add", "a + b", TWO, complex="a + b"),
    **_same("sub", "a - b", TWO, complex="a - b"),
    "mul": two("a * b", "a * b", complex="(T)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x)"),
    # Complex: scaled by the larger part of the divisor.
    "truediv": two(
        "a / b",
        complex="""
        const S c = fabs(b.x), d = fabs(b.y);
        if (c >= d) {
          if (c == 0 && d == 0) return (T)(a.x / c, a.y / d);
          const S ratio = b.y / b.x, scale = 1 / (b.x + b.y * ratio);
          return (T)((a.x + a.y * ratio) * scale, (a.y - a.x * ratio) * scale);
        }
        const S ratio = b.x / b.y, scale = 1 / (b.x * ratio + b.y);
        return (T)((a.x * ratio + a.y) * scale, (a.y * ratio - a.x) * scale);
        """,
    ),
    # Division by zero gives an arbitrary number and does not trap.
    "truncdiv": two("trunc(a / b)", _SAFE_DIVISOR + "return negated ? C(0) - a : a / divisor;"),
    "floordiv": two(
        """
        const T remainder = ob_fmod(a, b);
        T quotient = (a - remainder) / b;
        quotient = ((remainder != C(0)) & ((b < C(0)) != (remainder < C(0)))) ? quotient - C(1)
                                                                              : quotient;
        T rounded = floor(quotient);
        rounded = (quotient - rounded > C(0.5)) ? rounded + C(1) : rounded;
        rounded = (quotient != C(0)) ? rounded : copysign(C(0), a / b);
        return (b == C(0)) ? a / b : rounded;
        """,
        _SAFE_DIVISOR
        + """
        const T quotient = negated ? C(0) - a : a / divisor;
        const T remainder = a - quotient * b;
        return ((remainder != C(0)) & ((b < C(0)) != (remainder < C(0)))) ? quotient - C(1)
                                                                          : quotient;
        """,
    ),
    "fmod": two("fmod(a, b)", _SAFE_DIVISOR + "return negated ? C(0) : a - a / divisor * divisor;"),
    # Python's remainder, with the sign of the divisor.
    "remainder": two(
        """
        const T r = ob_fmod(a, b);
        return ((r != C(0)) & ((b < C(0)) != (r < C(0)))) ? r + b : r;
        """,
        _SAFE_DIVISOR
        + """
        const T r = negated ? C(0) : a - a / divisor * divisor;
        return ((r != C(0)) & ((b < C(0)) != (r < C(0)))) ? r + b : r;
        """,
    ),
    "neg": one("-a", "C(0) - a", complex="-a"),
    "abs": one(
        "fabs(a)", "(a < C(0)) ? C(0) - a : a", complex="hypot(a.x, a.y)", complex_result="S"
    ),
    "sign": one(
        "(a > C(0)) ? C(1) : ((a < C(0)) ? C(-1) : C(0))",
        "(a > C(0)) ? C(1) : ((a < C(0)) ? C(-1) : C(0))",
        complex="""
        const S length = hypot(a.x, a.y);
        return length == 0 ? (T)(0, 0) : a / length;
        """,
    ),
    "square": one("a * a", "a * a", complex="ob_mul(a, a)"),
    "reciprocal": one("C(1) / a", complex="ob_truediv((T)(1, 0), a)"),
    # NaN if an operand is NaN.
    "maximum": two("(a != a) ? a : ((b != b) ? b : ((a > b) ? a : b))", "(a > b) ? a : b"),
    "minimum": two("(a != a) ? a : ((b != b) ? b : ((a < b) ? a : b))", "(a < b) ? a : b"),
    # The other operand if one is NaN.
    "fmax": two("fmax(a, b)", "(a > b) ? a : b"),
    "fmin": two("fmin(a, b)", "(a < b) ? a : b"),
    "relu": one("(a < C(0)) ? C(0) : a", "(a < C(0)) ? C(0) : a"),
    "pow": two(
        "pow(a, b)",
        """
        T result = C(1), base = a;
        T rest = (b < C(0)) ? C(0) : b;
        for (int bit = 0; bit < (int)sizeof(S) * 8; ++bit) {
          result = ((rest & C(1)) != C(0)) ? result * base : result;
          base *= base;
          rest >>= C(1);
        }
        const T odd = b & C(1);
        const T inverse =
            (a == C(1)) ? C(1) : ((a == C(-1)) ? ((odd != C(0)) ? C(-1) : C(1)) : C(0));
        return (b < C(0)) ? inverse : result;
        """,
    ),
    "fma": ScalarFunction(THREE, "fma(a, b, c)"),
}

ROUNDING: Functions = {
    "floor": one("floor(a)", "a"),
    "ceil": one("ceil(a)", "a"),
    "trunc": one("trunc(a)", "a"),
    "round": one("rint(a)", "a"),  # half to even
    "frac": one("a - trunc(a)"),
    **_built_in("copysign nextafter", TWO),
}

EXPONENTIAL: Functions = {
    **_built_in("exp exp2 expm1 log1p sqrt lgamma erf erfc"),
    "log": one(
        "log(a)",
        complex="""
        // Of a half, where the length would be infinite.
        const S length = hypot(a.x, a.y);
        const S logarithm = isinf(length)
            ? log(hypot(a.x / 2, a.y / 2)) + (S)(0.6931471805599453) : log(length);
        return (T)(logarithm, atan2(a.y, a.x));
        """,
    ),
    "log2": one("log2(a)", complex="ob_log(a) * (S)(1.4426950408889634)"),
    "log10": one("log10(a)", complex="ob_log(a) * (S)(0.4342944819032518)"),
    "rsqrt": one("C(1) / sqrt(a)", complex="ob_truediv((T)(1, 0), ob_sqrt(a))"),
    "sigmoid": one(
        "C(1) / (C(1) + exp(-a))", complex="ob_truediv((T)(1, 0), (T)(1, 0) + ob_exp(-a))"
    ),
    "hypot": two("hypot(a, b)"),
    "logaddexp": two("""
        const T m = ob_maximum(a, b);
        return (ob_isinf(a) & (a == b)) ? a : m + ob_log1p(exp(-fabs(a - b)));
    """),
    "logaddexp2": two("""
        const T m = ob_maximum(a, b);
        return (ob_isinf(a) & (a == b))
                   ? a : m + ob_log1p(exp2(-fabs(a - b))) * C(1.4426950408889634);
    """),
    "xlogy": two("(b != b) ? b : ((a == C(0)) ? C(0) : a * log(b))"),
    "xlog1py": two("(b != b) ? b : ((a == C(0)) ? C(0) : a * ob_log1p(b))"),
    "entr": one("(a != a) ? a : ((a > C(0)) ? -a * log(a) : ((a == C(0)) ? C(0) : C(-INFINITY)))"),
    "sinc": one(
        "const T x = a * C(3.14159265358979323846); return (a == C(0)) ? C(1) : ob_sin(x) / x;",
        complex="""
        const T x = a * (S)(3.14159265358979323846);
        return (a.x == 0 && a.y == 0) ? (T)(1, 0) : ob_truediv(ob_sin(x), x);
        """,
    ),
}

TRIGONOMETRIC: Functions = {
    # A sine of zero stays zero, however large the other factor is.
    "sin": one(
        "sin(a)", complex="(T)(a.x == 0 ? a.x : sin(a.x) * cosh(a.y), cos(a.x) * sinh(a.y))"
    ),
    "cos": one(
        "cos(a)",
        complex="(T)(cos(a.x) * cosh(a.y),"
        " a.x == 0 ? (signbit(a.y) ? a.x : -a.x) : -sin(a.x) * sinh(a.y))",
    ),
    "sinh": one(
        "sinh(a)", complex="(T)(sinh(a.x) * cos(a.y), a.y == 0 ? a.y : cosh(a.x) * sin(a.y))"
    ),
    "cosh": one(
        "cosh(a)",
        complex="(T)(cosh(a.x) * cos(a.y),"
        " a.y == 0 ? (signbit(a.x) ? -a.y : a.y) : sinh(a.x) * sin(a.y))",
    ),
    # Exactly 1 for large arguments: derivatives multiply 1 - tanh(a) by large numbers.
    "tanh": one(
        "(fabs(a) > C(20)) ? copysign(C(1), a) : tanh(a)",
        complex="""
        const S s = sin(a.y), c = cos(a.y);
        if (fabs(a.x) > 20) return (T)(copysign((S)1, a.x), copysign((S)0, s * c));
        const S h = sinh(a.x), d = h * h + c * c;
        return (T)(h * cosh(a.x) / d, s * c / d);
        """,
    ),
    # PoCL's tan is wrong for subnormal numbers.
    "tan": one(
        "(fabs(a) < C(1e-30)) ? a : tan(a)",
        complex="const T t = ob_tanh((T)(-a.y, a.x)); return (T)(t.y, -t.x);",
    ),
    **_built_in("asin acos atan asinh acosh atanh"),
    **_built_in("atan2", TWO),
    "angle": one(
        "(a != a) ? a : ((a < C(0)) ? C(3.14159265358979323846) : C(0))",
        complex="atan2(a.y, a.x)",
        complex_result="S",
    ),
    "conj": one("a", "a", complex="(T)(a.x, -a.y)"),
    "polar": two(complex="(T)(a.x * cos(b.x), a.x * sin(b.x))"),
    "complex": two(complex="(T)(a.x, b.x)"),
}

_MASK = {"result": "M"}


def _comparisons(**operators: str) -> Functions:
    sources = {name: f"a {operator} b" for name, operator in operators.items()}
    return {name: two(source, source, result="M") for name, source in sources.items()}


def _logical(operator: str, name: str) -> Functions:
    source = f"ob_nonzero(a) {operator} ob_nonzero(b)"
    return _same(name, source, TWO, complex=source, **_MASK)


COMPARISON: Functions = {
    **_same("eq", "a == b", TWO, complex="(a.x == b.x) & (a.y == b.y)", **_MASK),
    **_same("ne", "a != b", TWO, complex="(a.x != b.x) | (a.y != b.y)", **_MASK),
    **_comparisons(lt="<", le="<=", gt=">", ge=">="),
    **_same("nonzero", "a != C(0)", complex="(a.x != 0) | (a.y != 0)", **_MASK),
    **_same("logical_not", "a == C(0)", complex="(a.x == 0) & (a.y == 0)", **_MASK),
    **_logical("&", "logical_and"),
    **_logical("|", "logical_or"),
    **_logical("^", "logical_xor"),
    "isnan": one("a != a", "a != a", complex="(a.x != a.x) | (a.y != a.y)", **_MASK),
    "isinf": one("fabs(a) == C(INFINITY)", "a != a", **_MASK),
    "isposinf": one("a == C(INFINITY)", "a != a", **_MASK),
    "isneginf": one("a == C(-INFINITY)", "a != a", **_MASK),
    "signbit": one("signbit(a)", "a < C(0)", **_MASK),
    **_same("where", "m ? a : b", "M m, T a, T b", complex="m ? a : b"),
}

_BITS = "(int)sizeof(S) * 8"

BITWISE: Functions = {
    "bitwise_and": two(integer="a & b"),
    "bitwise_or": two(integer="a | b"),
    "bitwise_xor": two(integer="a ^ b"),
    "bitwise_not": one(
        integer="\n#ifdef OB_BOOL\n  return a ^ C(1);\n#else\n  return ~a;\n#endif\n"
    ),
    # Shifts by at least the width of the type shift all bits out.
    "bitwise_left_shift": two(
        integer=f"""
    const M outside = (b < C(0)) | (b >= C({_BITS}));
    return outside ? C(0) : a << (outside ? C(0) : b);
    """
    ),
    "bitwise_right_shift": two(
        integer=f"""
    const M outside = (b < C(0)) | (b >= C({_BITS}));
    return a >> (outside ? C({_BITS} - 1) : b);
    """
    ),
}
