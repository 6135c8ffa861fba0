"""Special functions, as scalar functions in OpenCL C (see scalar_function.py)."""

from __future__ import annotations

import math

from torch_outboard.ops.functions import special_coefficients as known
from torch_outboard.ops.functions.chebyshev import expansion
from torch_outboard.ops.functions.scalar_function import ONE, TWO, Functions, ScalarFunction

_CENTER = 3.75  # of the expansion of erfcx, as in tools/special_coefficients.py
_NEAR_TAIL = (1 / 6, 1 / math.sqrt(2 * math.log(8)))
_FAR_TAIL = (1 / math.sqrt(2 * 1074 * math.log(2)), 1 / 6)


def _between(text: str, ends: tuple[float, float]) -> str:
    """An expression that maps an interval to [-1, 1]."""
    low, high = ends
    return f"({text} - C({(low + high) / 2!r})) * C({2 / (high - low)!r})"


# Bernoulli numbers of even order divided by factorials, as in DLMF 2.10.1.
_EULER_MACLAURIN = tuple(
    number / math.factorial(2 * k + 2)
    for k, number in enumerate(
        (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
         -174611 / 330)
    )
)  # fmt: skip


def _euler_maclaurin() -> str:
    text = ""
    for k, c in enumerate(_EULER_MACLAURIN):
        text += f"""{{
          const T term = rising * C({c!r});
          sum += term;
          if (fabs(term) <= epsilon * fabs(sum)) return sum;
          rising *= ((a + C({2 * k + 1})) / base) * ((a + C({2 * k + 2})) / base);
        }}
        """
    return text


SPECIAL: Functions = {
    # Reflection to positive arguments, recurrence to 10 or more, then the asymptotic series.
    "digamma": ScalarFunction(
        ONE,
        """
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
        result = (a < C(0)) ? result - pi / tan(pi * (a - trunc(a))) : result;
        result = ((a < C(0)) & (a == trunc(a))) ? C(NAN) : result;
        return (a == C(0)) ? copysign(C(INFINITY), -a) : result;
        """,
    ),
    # A rational approximation, then two steps of Newton's method.
    "erfinv": ScalarFunction(
        ONE,
        """
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
        """,
    ),
    # exp(a^2) erfc(a): over all positive numbers one expansion in (x - c) / (x + c).
    "erfcx": ScalarFunction(
        ONE,
        f"""
        const T x = fabs(a);
        {expansion("scaled", f"C(1) - C({2 * _CENTER}) / (x + C({_CENTER}))", known.ERFCX)}
        const T right = scaled / (C(1) + C(2) * x);
        return (a < C(0)) ? C(2) * exp(a * a) - right : right;
        """,
    ),
    "log_ndtr": ScalarFunction(
        ONE,
        """
        const T x = a * C(0.70710678118654752440);
        return (a < C(-1)) ? log(C(0.5) * ob_erfcx(-x)) - x * x : log1p(C(-0.5) * erfc(x));
        """,
    ),
    # Tails: t = sqrt(-2 log p) with expansions of the remainder.
    "ndtri": ScalarFunction(
        ONE,
        f"""
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
        """,
    ),
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
    "hurwitz_sum": ScalarFunction(
        TWO,
        f"""
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
        """,
    ),
    # Far below zero, with integer a: by the sum over all integers. Halfway between two poles that
    # sum is 0 for odd a, and adding terms from the left would cancel.
    "zeta": ScalarFunction(
        TWO,
        """
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
        """,
    ),
    # DLMF 5.15.6 where a < 1/2.
    "trigamma": ScalarFunction(
        ONE,
        """
        if (a >= C(0.5)) return ob_hurwitz_sum(C(2), a);
        const T sine = sin(C(3.14159265358979323846) * a);
        return C(9.86960440108935861883) / (sine * sine) - ob_hurwitz_sum(C(2), C(1) - a);
        """,
    ),
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
    # Multivariate log gamma of p dimensions (DLMF 35.3.4).
    "mvlgamma": ScalarFunction(
        "T a, T p",
        """
        T sum = C(0.28618247146235004) * p * (p - C(1));
        for (int k = 0; k < (int)p; ++k) sum += lgamma(a - C(0.5) * (T)k);
        return sum;
        """,
    ),
}
