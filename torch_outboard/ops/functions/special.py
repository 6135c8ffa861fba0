"""Special functions, as scalar functions in OpenCL C (see scalar_function.py).

DLMF is the Digital Library of Mathematical Functions (https://dlmf.nist.gov).
"""

import math

from torch_outboard.ops.functions import special_coefficients as known
from torch_outboard.ops.functions.scalar_function import (
    Functions,
    ScalarFunction,
    by_precision,
    expansion,
    one,
    polynomial,
    two,
)

_CENTER = 3.75  # of the expansion of erfcx, as in tools/special_coefficients.py
_NEAR_TAIL = (1 / 6, 1 / math.sqrt(2 * math.log(8)))
_FAR_TAIL = (1 / math.sqrt(2 * 1074 * math.log(2)), 1 / 6)


def _between(source: str, ends: tuple[float, float]) -> str:
    """An expression that maps an interval to [-1, 1]."""
    low, high = ends
    return f"({source} - C({(low + high) / 2!r})) * C({2 / (high - low)!r})"


# Bernoulli numbers of even order divided by factorials, as in DLMF 2.10.1.
_EULER_MACLAURIN = tuple(
    number / math.factorial(2 * k + 2)
    for k, number in enumerate(
        (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
         -174611 / 330)
    )
)  # fmt: skip


def _euler_maclaurin() -> str:
    source = ""
    for k, c in enumerate(_EULER_MACLAURIN):
        source += f"""{{
          const T term = rising * C({c!r});
          sum += term;
          if (fabs(term) <= epsilon * fabs(sum)) return sum;
          rising *= ((a + C({2 * k + 1})) / base) * ((a + C({2 * k + 2})) / base);
        }}
        """
    return source


SPECIAL: Functions = {
    # Reflection to positive arguments, recurrence to 10 or more, then the asymptotic series.
    "digamma": one("""
        T x = (a < C(0)) ? C(1) - a : a;
        T sum = C(0);
        for (int k = 0; k < 10; ++k) {
          const M small = x < C(10);
          sum = small ? sum - C(1) / x : sum;
          x = small ? x + C(1) : x;
        }
        const T z = C(1) / (x * x);
        const T series = z * (C(0.08333333333333333) - z * (C(0.008333333333333333)
            - z * (C(0.003968253968253968) - z * (C(0.004166666666666667)
            - z * (C(0.007575757575757576) - z * (C(0.021092796092796094)
            - z * C(0.08333333333333333)))))));
        T result = sum + log(x) - C(0.5) / x - series;
        const T pi = C(3.14159265358979323846);
        result = (a < C(0)) ? result - pi / tan(pi * (a - rint(a))) : result;
        result = ((a < C(0)) & (a == trunc(a))) ? C(NAN) : result;
        return (a == C(0)) ? copysign(C(INFINITY), -a) : result;
    """),
    # A rational approximation, then two steps of Newton's method.
    "erfinv": one("""
        const T z = a * a;
        const T inner = a
            * (((C(-0.140543331) * z + C(0.914624893)) * z + C(-1.645349621)) * z + C(0.886226899))
            / ((((C(0.012229801) * z + C(-0.329097515)) * z + C(1.442710462)) * z
                + C(-2.118377725)) * z + C(1));
        const T w = sqrt(-log((C(1) - fabs(a)) / C(2)));
        const T outer = copysign(
            ((C(1.641345311) * w + C(3.429567803)) * w + C(-1.624906493)) * w + C(-1.970840454), a)
            / ((C(1.637067800) * w + C(3.543889200)) * w + C(1));
        T x = (fabs(a) <= C(0.7)) ? inner : outer;
        for (int k = 0; k < 2; ++k) {
          x -= (ob_erf(x) - a) / (C(1.1283791670955126) * exp(-x * x));
        }
        x = (fabs(a) == C(1)) ? copysign(C(INFINITY), a) : x;
        return (fabs(a) > C(1)) ? C(NAN) : x;
    """),
    # exp(a^2) erfc(a): over all positive numbers one expansion in (x - c) / (x + c).
    "erfcx": one(f"""
        const T x = fabs(a);
        {expansion("scaled", f"C(1) - C({2 * _CENTER}) / (x + C({_CENTER}))", known.ERFCX)}
        const T right = scaled / (C(1) + C(2) * x);
        return (a < C(0)) ? C(2) * exp(a * a) - right : right;
    """),
    "log_ndtr": one("""
        const T x = a * C(0.70710678118654752440);
        return (a < C(-1)) ? log(C(0.5) * ob_erfcx(-x)) - x * x : log1p(C(-0.5) * erfc(x));
    """),
    # Tails: t = sqrt(-2 log p) with expansions of the remainder.
    "ndtri": one(f"""
        const T d = a - C(0.5);
        {expansion("middle", f"d * d * C({2 / 0.375**2!r}) - C(1)", known.NDTRI_CENTER)}
        const T t = sqrt(C(-2) * log((d < C(0)) ? a : C(1) - a));
        const T y = C(1) / t;
        {expansion("near", _between("y", _NEAR_TAIL), known.NDTRI_NEAR_TAIL)}
        {expansion("far", _between("y", _FAR_TAIL), known.NDTRI_FAR_TAIL)}
        const T tail = t - (log(t) + ((t < C(6)) ? near : far)) * y;
        const T signed_tail = (d < C(0)) ? -tail : tail;
        const T result = (fabs(d) <= C(0.375)) ? d * middle : signed_tail;
        return (a == C(0)) ? C(-INFINITY) : ((a == C(1)) ? C(INFINITY) : result);
    """),
}

# For scalars only: their loops and branches depend on the value.
SCALAR: Functions = {
    # Multiplication keeps powers of ten exact as long as the precision suffices.
    "round_decimals": ScalarFunction(
        "T a, T decimals",
        """
        T power = C(1);
        for (int k = (int)fmin(fabs(decimals), C(400)); k > 0; --k) power *= C(10);
        if (decimals == C(0)) return rint(a);
        return decimals < C(0) ? rint(a / power) * power : rint(a * power) / power;
        """,
    ),
    # The sum of (b + k)^-a, for b > -30 except poles, by the Euler-Maclaurin formula (DLMF 2.10.1).
    "hurwitz_sum": two(f"""
        const T epsilon =
        #ifdef OB_DOUBLE
            C(1.1e-16);
        #else
            C(5.9e-8);
        #endif
        T sum = C(0), base = b;
        for (int k = 0; k < 9 || base <= C(9); ++k) {{
          const T term = pow(base, -a);
          sum += term;
          if (fabs(term) < epsilon * fabs(sum)) return sum;
          if (base == C(INFINITY)) return sum;
          base += C(1);
        }}
        const T power = pow(base, -a);
        sum += power * base / (a - C(1)) + C(0.5) * power;
        T rising = a * power / base;
        {_euler_maclaurin()}
        return sum;
    """),
    # Far below zero, with integer a: by the sum over all integers. Halfway between two poles that
    # sum is 0 for odd a, and adding terms from the left would cancel.
    "zeta": two("""
        if (a == C(1)) return C(INFINITY);
        if (a < C(1)) return C(NAN);
        if (b <= C(0)) {
          if (b == floor(b)) return C(INFINITY);
          if (a != floor(a)) return C(NAN);
        }
        if (a != a || b != b || b == C(INFINITY)) return C(NAN);
        if (a == C(INFINITY)) return b < C(1) ? C(INFINITY) : (b == C(1) ? C(1) : C(NAN));
        const T f = b - floor(b);
        if (b > C(0) || (b >= C(-20) && f != C(0.5))) return ob_hurwitz_sum(a, b);
        const T sign = fmod(a, C(2)) == C(0) ? C(1) : C(-1);
        const T all = ob_hurwitz_sum(a, f) + sign * ob_hurwitz_sum(a, C(1) - f);
        return all - sign * ob_hurwitz_sum(a, C(1) - b);
    """),
    # DLMF 5.15.6 where a < 1/2.
    "trigamma": one("""
        if (a >= C(0.5)) return ob_hurwitz_sum(C(2), a);
        const T sine = sin(C(3.14159265358979323846) * a);
        return C(9.86960440108935861883) / (sine * sine) - ob_hurwitz_sum(C(2), C(1) - a);
    """),
    # The derivative of order n of digamma, n >= 2 (DLMF 5.15.1).
    "polygamma": ScalarFunction(
        "T n, T a",
        """
        #ifdef OB_DOUBLE
        #define OB_MOST_FACTORIAL 170
        #else
        #define OB_MOST_FACTORIAL 34
        #endif
        const T sum = ob_zeta(n + C(1), a);
        const T sign = fmod(n, C(2)) == C(0) ? C(-1) : C(1);
        if (n > OB_MOST_FACTORIAL) {
          return sign * copysign(exp(lgamma(n + C(1)) + log(fabs(sum))), sum);
        }
        T factorial = C(1);
        for (int k = 2; k <= (int)n; ++k) factorial *= (T)k;
        return sign * factorial * sum;
        """,
    ),
}


# ---- Incomplete gamma functions P(a, b) and Q(a, b), for scalars only.
#
# Large arguments close to each other: the uniform expansion of DLMF 8.12. Otherwise, for smaller b
# the series of DLMF 8.7.1, for larger b the continued fraction of DLMF 8.9.2.


def _uniform(orders: int, powers: int) -> str:
    """The sum over k of c_k(eta) / a^k, in `u` = 1 / a."""
    source = "C(0)"
    for coefficients in reversed(known.INCOMPLETE_GAMMA[:orders]):
        source = f"({source} * u + {polynomial('eta', coefficients[:powers])})"
    return f"sum = {source};"


_ATANH = polynomial("(r * r)", [1 / (2 * k + 3) for k in range(12)])
_STIRLING = polynomial(
    "(u * u)", [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]
)

INCOMPLETE: Functions = {
    # m - log(1 + m) for m = (b - a) / a, without cancellation.
    "log_rest": two(f"""
        const T m = (b - a) / a;
        if (fabs(m) > C(0.35)) return m - log(b / a);
        const T r = m / (C(2) + m);
        return m * r - C(2) * r * r * r * {_ATANH};
    """),
    # b^a exp(-b) / Gamma(a + 1).
    "gamma_term": two(f"""
        if (a < C(10)) {{
          return b < C(50) ? pow(b, a) * exp(-b) / tgamma(a + C(1))
                           : exp(a * log(b) - b - lgamma(a + C(1)));
        }}
        const T u = C(1) / a;
        return exp(-a * ob_log_rest(a, b) - u * {_STIRLING})
            / sqrt(C({2 * math.pi!r}) * a);
    """),
    # P, or Q with `upper`, for finite positive arguments.
    "incomplete_gamma": ScalarFunction(
        "T a, T b, int upper",
        f"""
        const T m = (b - a) / a;
        if (a > C(100) && fabs(m) < C(0.3)) {{
          const T eta = copysign(sqrt(C(2) * ob_log_rest(a, b)), m);
          const T u = C(1) / a;
          T sum;
          {by_precision(_uniform(7, 15), _uniform(4, 9))}
          const T rest = exp(C(-0.5) * a * eta * eta) / sqrt(C({2 * math.pi!r}) * a) * sum;
          const T half_erfc = C(0.5) * erfc((upper ? eta : -eta) * sqrt(C(0.5) * a));
          return upper ? half_erfc + rest : half_erfc - rest;
        }}
        const T epsilon = {by_precision("C(1e-16);", "C(6e-8);")}
        if (upper && b < C(1.1) && a <= C(1)) {{
          // 1 - P in terms that do not cancel: exp(...) - 1, and the alternating series.
          T sum = C(0), term = C(1);
          for (int k = 1; k < 100; ++k) {{
            term *= -b / (T)k;
            const T next = term / (a + (T)k);
            sum += next;
            if (fabs(next) <= epsilon * fabs(sum)) break;
          }}
          const T exponent = a * log(b) - lgamma(a + C(1));
          return -expm1(exponent) - exp(exponent) * a * sum;
        }}
        const T front = ob_gamma_term(a, b);
        if (b < C(1.1) || b <= (upper ? a : a + C(1))) {{
          T sum = C(1), term = C(1);
          for (int k = 1; k < 10000; ++k) {{
            term *= b / (a + (T)k);
            sum += term;
            if (term <= epsilon * sum) break;
          }}
          return upper ? C(1) - front * sum : front * sum;
        }}
        // Lentz's method: d is the denominator of one convergent over that of the next.
        T even = b + C(1) - a;
        T c = C(INFINITY), d = C(1) / even, value = d;
        for (int k = 1; k < 10000; ++k) {{
          const T numerator = (T)k * (a - (T)k);
          even += C(2);
          d = C(1) / (even + numerator * d);
          c = even + numerator / c;
          const T factor = c * d;
          value *= factor;
          if (fabs(factor - C(1)) <= epsilon) break;
        }}
        const T fraction = front * a * value;
        return upper ? fraction : C(1) - fraction;
        """,
    ),
    "igamma_ends": ScalarFunction(
        "T a, T b, int upper",
        """
        const T none = upper ? C(1) : C(0), all = upper ? C(0) : C(1);
        if (b < C(0) || a < C(0)) return C(NAN);
        if (a == C(0)) return b > C(0) ? all : C(NAN);
        if (b == C(0)) return none;
        if (a == C(INFINITY)) return b == C(INFINITY) ? C(NAN) : none;
        if (b == C(INFINITY)) return all;
        if (a != a || b != b) return C(NAN);
        return ob_incomplete_gamma(a, b, upper);
        """,
    ),
    "igamma": two("ob_igamma_ends(a, b, 0)"),
    "igammac": two("ob_igamma_ends(a, b, 1)"),
}


# ---- Orthogonal polynomials of degree n at x, for scalars only.
#
# Computed by their recurrences (DLMF 18.9.1); Chebyshev polynomials of higher degrees between -1
# and 1 by trigonometric functions (DLMF 18.5.1-4). A degree is rounded towards zero; for a
# negative, NaN or infinite degree the value is 0, as on CPU.

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
