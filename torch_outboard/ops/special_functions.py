"""Special functions, as scalar functions in OpenCL C (see scalar_functions.py)."""

from __future__ import annotations

from torch_outboard.ops.scalar_functions import ONE, Functions, ScalarFunction

_NAN = "C(NAN)"

SPECIAL: Functions = {
    # Reflected to positive arguments, moved above 10, then the asymptotic series.
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
          x -= (erf(x) - a) / (C(1.1283791670955126) * exp(-x * x));
        }
        x = (fabs(a) == C(1)) ? copysign(C(INFINITY), a) : x;
        return (fabs(a) > C(1)) ? C(NAN) : x;
        """,
    ),
}
