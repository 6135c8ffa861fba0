"""Orthogonal polynomials of degree n at x, for scalars alone (see scalar_function.py).

Computed by their recurrences (DLMF 18.9.1); Chebyshev polynomials of higher degrees between -1 and
1 by trigonometric functions (DLMF 18.5.1-4). A degree is rounded towards zero; for a negative,
NaN or infinite degree the value is 0, as on CPU.
"""

from __future__ import annotations

from torch_outboard.ops.functions.scalar_function import Functions, ScalarFunction

_PARAMETERS = "T x, T degree"
_DEGREE = """
    if (!(degree > C(-1)) || degree >= C(9e18)) return C(0);
    const long n = (long)degree;
"""


def _recurrence(first: str, step: str) -> str:
    """`step` computes degree k + 1 from degree k, named `q`, and degree k - 1, named `p`."""
    return f"""
        if (n == 0) return C(1);
        T p = C(1), q = {first};
        for (long k = 1; k < n && q == q; ++k) {{
          const T next = {step};
          p = q;
          q = next;
        }}
        return q;
    """


def _chebyshev(first: str, right: str, left: str, most: int, inside: str) -> str:
    """A Chebyshev polynomial of degree n.

    Args:
        first: the value of degree 1.
        right, left: the values at 1, and at -1 without its sign.
        most: the highest degree computed by the recurrence between -1 and 1.
        inside: statements for higher degrees there, from `angle`.
    """
    return f"""
        {_DEGREE}
        if (x == C(1)) return {right};
        if (x == C(-1)) return n % 2 == 0 ? {left} : -({left});
        if (n > {most} && fabs(x) < C(1)) {{
          const T angle = acos(x);
          {inside}
        }}
        {_recurrence(first, "(x + x) * q - p")}
    """


def _polynomial(first: str, step: str) -> ScalarFunction:
    return ScalarFunction(_PARAMETERS, _DEGREE + _recurrence(first, step))


def _hermite(first: str, step: str) -> ScalarFunction:
    # CPU returns NaN for higher degrees.
    limit = """
        #ifdef OB_DOUBLE
        if (n > 512) return C(NAN);
        #else
        if (n > 128) return C(NAN);
        #endif
    """
    return ScalarFunction(_PARAMETERS, _DEGREE + limit + _recurrence(first, step))


_ODD = "C(2) * (T)n + C(1)"
_HALF = "((T)n + C(0.5)) * angle"

CHEBYSHEV: Functions = {
    "chebyshev_polynomial_t": ScalarFunction(
        _PARAMETERS, _chebyshev("x", "C(1)", "C(1)", 6, "return cos((T)n * angle);")
    ),
    "chebyshev_polynomial_u": ScalarFunction(
        _PARAMETERS,
        _chebyshev(
            "x + x",
            "(T)n + C(1)",
            "(T)n + C(1)",
            8,
            "if (sin(angle) != C(0)) return sin(((T)n + C(1)) * angle) / sin(angle);",
        ),
    ),
    "chebyshev_polynomial_v": ScalarFunction(
        _PARAMETERS,
        _chebyshev("x + x - C(1)", "C(1)", _ODD, 8, f"return cos({_HALF}) / cos(C(0.5) * angle);"),
    ),
    "chebyshev_polynomial_w": ScalarFunction(
        _PARAMETERS,
        _chebyshev("x + x + C(1)", _ODD, "C(1)", 8, f"return sin({_HALF}) / sin(C(0.5) * angle);"),
    ),
}

POLYNOMIALS: Functions = {
    **CHEBYSHEV,
    **{
        f"shifted_{name}": ScalarFunction(_PARAMETERS, f"ob_{name}(x + x - C(1), degree)")
        for name in CHEBYSHEV
    },
    "hermite_polynomial_h": _hermite("x + x", "(x + x) * q - C(2) * (T)k * p"),
    "hermite_polynomial_he": _hermite("x", "x * q - (T)k * p"),
    "laguerre_polynomial_l": _polynomial(
        "C(1) - x", "((C(2) * (T)k + C(1) - x) * q - (T)k * p) / ((T)k + C(1))"
    ),
    "legendre_polynomial_p": ScalarFunction(
        _PARAMETERS,
        _DEGREE
        + "if (fabs(x) == C(1)) return (x > C(0) || n % 2 == 0) ? C(1) : C(-1);"
        + _recurrence("x", "((C(2) * (T)k + C(1)) * x * q - (T)k * p) / ((T)k + C(1))"),
    ),
}
