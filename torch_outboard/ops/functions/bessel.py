"""Bessel and Airy functions, as scalar functions in OpenCL C (see scalar_function.py).

Expansions of special_coefficients.py: of the function near zero, and beyond of the factors of the
asymptotic form. DLMF is the Digital Library of Mathematical Functions (https://dlmf.nist.gov).
"""

import math

from torch_outboard.ops.functions import special_coefficients as known
from torch_outboard.ops.functions.scalar_function import (
    PRECISIONS,
    Functions,
    expansion,
    minus_zero_of,
    one,
    polynomial,
)

_TWO_OVER_PI = f"C({2 / math.pi!r})"


def _exponential(order: int) -> str:
    """exp(-|a|) I(a)."""
    near, far = ((known.I0_NEAR, known.I0_FAR), (known.I1_NEAR, known.I1_FAR))[order]
    ends = ("near", "far / sqrt(x)") if order == 0 else ("a * near", "copysign(far / sqrt(x), a)")
    return f"""
        const T x = fabs(a);
        {expansion("near", "x * C(0.25) - C(1)", near)}
        {expansion("far", "C(16) / x - C(1)", far)}
        return (x <= C(8)) ? {ends[0]} : {ends[1]};
    """


_TERMS = 13  # of power series for |x| <= 2


def _digamma(n: int) -> float:
    """The digamma function of a positive integer."""
    return math.fsum([-0.5772156649015329, *(1 / k for k in range(1, n))])


def _decaying() -> tuple[str, str]:
    """exp(x) K0(x) and exp(x) K1(x): near zero by DLMF 10.31.1-2."""
    squares = [1 / math.factorial(k) ** 2 for k in range(_TERMS)]
    mixed = [1 / (math.factorial(k) * math.factorial(k + 1)) for k in range(_TERMS)]
    i0, i1 = polynomial("q", squares), polynomial("q", mixed)
    rest0 = polynomial("q", [_digamma(k + 1) * c for k, c in enumerate(squares)])
    rest1 = polynomial("q", [(_digamma(k + 1) + _digamma(k + 2)) * c for k, c in enumerate(mixed)])
    near0 = f"exp(a) * ({rest0} - log(h) * {i0})"
    near1 = f"exp(a) * (C(1) / a + h * (log(h) * {i1} - C(0.5) * {rest1}))"
    sources = []
    for near, far in ((near0, known.K0_FAR), (near1, known.K1_FAR)):
        sources.append(f"""
            const T h = C(0.5) * a;
            const T q = h * h;
            {expansion("far", "C(4) / a - C(1)", far)}
            const T near = {near};
            return (a == C(0)) ? C(INFINITY) : ((a > C(2)) ? far / sqrt(a) : near);
        """)
    return sources[0], sources[1]


def _factors(zeros: tuple[tuple[float, float], ...]) -> str:
    return " * ".join(f"({minus_zero_of('x', zero)} * (x + C({zero[0]!r})))" for zero in zeros)


def _wave(order: int) -> str:
    """Parts of the Bessel functions of an order: `j` where x <= 8; `p`, `q`, `plus`, `minus` and
    `scale` beyond (DLMF 10.17.3-4, with sine and cosine of x itself)."""
    j = (known.J0_NEAR, known.J1_NEAR)[order]
    zeros = (known.ZEROS_J0, known.ZEROS_J1)[order]
    p, q = ((known.P0_FAR, known.Q0_FAR), (known.P1_FAR, known.Q1_FAR))[order]
    return f"""
        {PRECISIONS}
        {expansion("reduced", "x * x * C(0.03125) - C(1)", j)}
        const T j = reduced * {"x * " * order} {_factors(zeros)};
        const T r = C(8) / x;
        {expansion("p", "C(2) * r * r - C(1)", p)}
        {expansion("modulation", "C(2) * r * r - C(1)", q)}
        const T q = modulation / x;
        const T sine = sin(x), cosine = cos(x);
        const T plus = sine + cosine, minus = sine - cosine;
        const T scale = C(1) / sqrt(C({math.pi!r}) * x);
    """


_FIRST_0 = f"""
    const T x = fabs(a);
    {_wave(0)}
    return (x <= C(8)) ? j : scale * (p * plus - q * minus);
"""
_FIRST_1 = f"""
    const T x = fabs(a);
    {_wave(1)}
    const T far = scale * (p * minus + q * plus);
    const T result = (x <= C(8)) ? j : far;
    return (a < C(0)) ? -result : ((a == C(0)) ? a : result);
"""
# With the logarithms of DLMF 10.8.1-2, which give NaN for negative numbers.
_SECOND_0 = f"""
    const T x = a;
    {_wave(0)}
    {expansion("regular", "x * x * C(0.03125) - C(1)", known.Y0_NEAR)}
    const T near = regular + {_TWO_OVER_PI} * log(C(0.5) * x) * j;
    const T far = scale * (p * minus + q * plus);
    return (x == C(0)) ? C(-INFINITY) : ((x > C(8)) ? far : near);
"""
_SECOND_1 = f"""
    const T x = a;
    {_wave(1)}
    {expansion("regular", "x * x * C(0.03125) - C(1)", known.Y1_NEAR)}
    const T near = x * regular + {_TWO_OVER_PI} * (log(C(0.5) * x) * j - C(1) / x);
    const T far = scale * (q * minus - p * plus);
    return (x == C(0)) ? C(-INFINITY) : ((x > C(8)) ? far : near);
"""

_AIRY_LEFT, _AIRY_RIGHT = (2 / 3 * x**1.5 for x in (4.0, 2.0))

# DLMF 9.7.5 and 9.7.9.
_AIRY = f"""
    const T x = fabs(a);
    const T zeta = C({2 / 3!r}) * x * sqrt(x);
    {expansion("near", "(a + C(1)) / C(3)", known.AIRY_NEAR)}
    {expansion("decay", f"C({2 * _AIRY_RIGHT!r}) / zeta - C(1)", known.AIRY_DECAY)}
    const T r = C({_AIRY_LEFT!r}) / zeta;
    {expansion("of_cosine", "C(2) * r * r - C(1)", known.AIRY_COSINE)}
    {expansion("of_sine", "C(2) * r * r - C(1)", known.AIRY_SINE)}
    const T scale = C({1 / math.sqrt(math.pi)!r}) / sqrt(sqrt(x));
    const T sine = sin(zeta), cosine = cos(zeta);
    const T left = scale * C({math.sqrt(0.5)!r})
        * (of_cosine * (cosine + sine) + of_sine / zeta * (sine - cosine));
    const T right = C(0.5) * scale * exp(-zeta) * decay;
    const T result = (a > C(2)) ? right : ((a < C(-4)) ? left : near);
    return (x == C(INFINITY)) ? C(NAN) : result;
"""

_K0, _K1 = _decaying()

BESSEL: Functions = {
    "i0e": one(_exponential(0)),
    "i1e": one(_exponential(1)),
    "i0": one("exp(fabs(a)) * ob_i0e(a)"),
    "i1": one("exp(fabs(a)) * ob_i1e(a)"),
    "modified_bessel_i0": one("ob_i0(a)"),
    "modified_bessel_i1": one("ob_i1(a)"),
    "scaled_modified_bessel_k0": one(_K0),
    "scaled_modified_bessel_k1": one(_K1),
    "modified_bessel_k0": one("exp(-a) * ob_scaled_modified_bessel_k0(a)"),
    "modified_bessel_k1": one("exp(-a) * ob_scaled_modified_bessel_k1(a)"),
    "bessel_j0": one(_FIRST_0),
    "bessel_j1": one(_FIRST_1),
    "bessel_y0": one(_SECOND_0),
    "bessel_y1": one(_SECOND_1),
    "spherical_bessel_j0": one(
        "(fabs(a) < C(1e-4)) ? C(1) - a * a / C(6) : ((fabs(a) == C(INFINITY)) ? C(0) : sin(a) / a)"
    ),
    "airy_ai": one(_AIRY),
}
