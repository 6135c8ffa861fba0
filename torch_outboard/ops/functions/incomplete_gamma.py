"""The incomplete gamma functions P(a, b) and Q(a, b), for scalars only (see scalar_function.py).

Large arguments close to each other: the uniform expansion of DLMF 8.12. Otherwise, for smaller b
the series of DLMF 8.7.1, for larger b the continued fraction of DLMF 8.9.2.
"""

from __future__ import annotations

import math

from torch_outboard.ops.functions.chebyshev import by_precision, polynomial
from torch_outboard.ops.functions.incomplete_gamma_coefficients import INCOMPLETE_GAMMA
from torch_outboard.ops.functions.scalar_function import Functions, ScalarFunction


def _uniform(orders: int, powers: int) -> str:
    """The sum over k of c_k(eta) / a^k, in `u` = 1 / a."""
    text = "C(0)"
    for coefficients in reversed(INCOMPLETE_GAMMA[:orders]):
        text = f"({text} * u + {polynomial('eta', coefficients[:powers])})"
    return f"sum = {text};"


_ATANH = polynomial("(r * r)", [1 / (2 * k + 3) for k in range(12)])
_STIRLING = polynomial(
    "(u * u)", [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]
)

INCOMPLETE: Functions = {
    # m - log(1 + m) for m = (b - a) / a, without cancellation.
    "log_rest": ScalarFunction(
        "T a, T b",
        f"""
        const T m = (b - a) / a;
        if (fabs(m) > C(0.35)) return m - log(b / a);
        const T r = m / (C(2) + m);
        return m * r - C(2) * r * r * r * {_ATANH};
        """,
    ),
    # b^a exp(-b) / Gamma(a + 1).
    "gamma_term": ScalarFunction(
        "T a, T b",
        f"""
        if (a < C(10)) {{
          return b < C(50) ? pow(b, a) * exp(-b) / tgamma(a + C(1))
                           : exp(a * log(b) - b - lgamma(a + C(1)));
        }}
        const T u = C(1) / a;
        return exp(-a * ob_log_rest(a, b) - u * {_STIRLING})
            / sqrt(C({2 * math.pi!r}) * a);
        """,
    ),
    # P, or Q with `upper`, for finite positive arguments.
    "incomplete_gamma": ScalarFunction(
        "T a, T b, int upper",
        f"""
        const T m = (b - a) / a;
        if (a > C(100) && fabs(m) < C(0.3)) {{
          const T eta = copysign(sqrt(C(2) * ob_log_rest(a, b)), m);
          const T u = C(1) / a;
          T sum;
          {by_precision(_uniform(9, 20), _uniform(4, 9))}
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
    "igamma": ScalarFunction("T a, T b", "ob_igamma_ends(a, b, 0)"),
    "igammac": ScalarFunction("T a, T b", "ob_igamma_ends(a, b, 1)"),
}
