"""Elementary functions in single precision, without branches between elements.

OpenCL implementations for CPUs tend to compute these functions element by element. Double precision
uses OpenCL C's functions, and so do rare arguments that need other methods: a vector calls them
only if it has such an element. The polynomials come from tools/single_precision_coefficients.py.
Errors measured against double precision: 2 units in the last place at most.
"""

from torch_outboard.ops.functions import single_precision_coefficients as known
from torch_outboard.ops.functions.scalar_function import by_precision, constant, polynomial

_LOG2, _LOG2_REST = map(constant, known.LOG_OF_2)
_LOG2_E, _LOG2_E_REST = map(constant, known.LOG2_OF_E)
_HALF_PI = [constant(part) for part in known.HALF_PI]

# x = 2^k m with m between the square roots of 1/2 and 2; `bits` are those of x.
_EXPONENT = "const M k = (bits - (M)(0x3f3504f3)) >> (M)(23);"
# 2^n of an integer n given as a float; the sum moves n to the lowest bits.
_POWER = "OB_VALUE((OB_BITS({0} + C(12582912)) + (M)(127 - 0x4b400000)) << (M)(23))"


def _wave(name: str, quadrant: str, sign: str) -> str:
    """Sine or cosine: reduces the argument by multiples of pi / 2, then takes a polynomial."""
    return f"""
        const T x = fabs(a);
        const M common = x < C(1e5);
        const T shifted = x * C(0.6366197723675814) + C(12582912);
        const T n = shifted - C(12582912);
        const M quadrant = OB_BITS(shifted){quadrant};
        T r = fma(-n, {_HALF_PI[0]}, x);
        r = fma(-n, {_HALF_PI[1]}, r);
        r = fma(-n, {_HALF_PI[2]}, r);
        const T y = r * r;
        const T sine = fma(r * y, {polynomial("y", known.SIN)}, r);
        const T cosine = fma(y * y, {polynomial("y", known.COS)}, fma(y, C(-0.5), C(1)));
        const M odd = (quadrant & (M)(1)) != (M)(0);
        const M flipped = ((quadrant & (M)(2)) << (M)(30)){sign};
        T result = OB_VALUE(OB_BITS(odd ? cosine : sine) ^ flipped);
        if (OB_ANY(!common)) result = common ? result : {name}(a);
        return result;
    """


_ONE: dict[str, str] = {
    # Far from 0 it is 1 - 2^(-z p) for a polynomial p.
    "erf": f"""
        const T x = fabs(a);
        const T y = x * x;
        const T center = fma(a, {polynomial("y", known.ERF_CENTER)}, a);
        const T z = (x < C(4)) ? x : C(4);
        const T p = {polynomial("z", known.ERF_TAIL)};
        const T shifted = fma(-z, p, C(12582912));
        const T f = fma(-z, p, C(12582912) - shifted);
        const T power = {polynomial("f", known.EXP2)};
        const T tail = C(1) - OB_VALUE(OB_BITS(power) + (OB_BITS(shifted) << (M)(23)));
        return (x > C(1)) ? copysign(tail, a) : center;
        """,
    # exp(n log(2) + r) - 1 = 2^n (exp(r) - 1) + (2^n - 1), with 2^n / 2: 2^n may overflow.
    "expm1": f"""
        T x = (a > C(89)) ? C(89) : a;
        x = (x < C(-30)) ? C(-30) : x;
        const T n = rint(x * {_LOG2_E});
        T r = fma(-n, {_LOG2}, x);
        r = fma(-n, {_LOG2_REST}, r);
        const T rest = fma(r * r, {polynomial("r", known.EXPM1)}, r);
        const T half_power = {_POWER.format("(n - C(1))")};
        const T half_result = fma(half_power, rest, half_power - C(0.5));
        return (a == C(0)) ? a : half_result + half_result;
        """,
    # a = 2^k m - 1, so log(1 + a) = k log(2) + log(1 + f) with f = m - 1 = (a + 1) / 2^k - 1.
    "log1p": f"""
        const M bits = OB_BITS(C(1) + a);
        {_EXPONENT}
        const T scale = OB_VALUE(((M)(129) - k) << (M)(23));
        const T f = fma(C(0.25) * a, scale, fma(C(0.25), scale, C(-1)));
        const T near = fma(f * f, {polynomial("f", known.LOG1P)}, f);
        const T power = OB_VALUE((k + (M)(0x4b400000))) - C(12582912);
        T result = fma(power, {_LOG2}, fma(power, {_LOG2_REST}, near));
        result = ((a == C(0)) | (a == C(INFINITY))) ? a : result;
        result = (a == C(-1)) ? C(-INFINITY) : result;
        return (a < C(-1)) ? C(NAN) : result;
        """,
    "sin": _wave("sin", "", " ^ (OB_BITS(a) & (M)(0x80000000))"),
    "cos": _wave("cos", " + (M)(1)", ""),
}

_TWO: dict[str, str] = {
    # 2^(b log2 |a|), where the logarithm is a sum of two numbers. Rounding errors are computed by
    # explicit fma, because some compilers contract products and sums, which would lose them.
    "pow": f"""
        const T x = fabs(a);
        const M bits = OB_BITS(x);
        {_EXPONENT}
        const T power = OB_VALUE((k + (M)(0x4b400000))) - C(12582912);
        const T m = OB_VALUE(bits - (k << (M)(23)));
        const T d = m + C(1);
        const T inverse = C(1) / d;
        const T s = (m - C(1)) * inverse;
        const T s_rest = (fma(-s, d, m - C(1)) - s * (m - (d - C(1)))) * inverse;
        const T y = s * s;
        const T more = fma(y * s, {polynomial("y", known.LOG)}, s_rest + s_rest);
        const T sum = fma(s + s, {_LOG2_E}, power);
        const T sum_rest = fma(s + s, {_LOG2_E}, power - sum)
            + ((s + s) * {_LOG2_E_REST} + more * {_LOG2_E});
        const T logarithm = sum + sum_rest;
        const T logarithm_rest = sum_rest - (logarithm - sum);
        const T exponent = b * logarithm;
        const M common =
            (fabs(exponent) < C(125)) & (x > C(1.2e-38)) & (x < C(INFINITY));
        const T n = rint(exponent);
        const T size = exp2(fma(b, logarithm, -n) + b * logarithm_rest) * {_POWER.format("n")};
        const T half_b = C(0.5) * b;
        const T negative = (rint(b) != b) ? C(NAN) : ((rint(half_b) != half_b) ? -size : size);
        T result = (a < C(0)) ? negative : size;
        if (OB_ANY(!common)) result = common ? result : pow(a, b);
        return result;
        """,
    # The quotient may be rounded up to the next integer, never down.
    "fmod": """
        const T quotient = trunc(a / b);
        const M common = (fabs(quotient) < C(4194304)) & (fabs(b) < C(INFINITY));
        const T x = fabs(a), y = fabs(b);
        const T r = fma(-fabs(quotient), y, x);
        T result = copysign((r < C(0)) ? r + y : r, a);
        if (OB_ANY(!common)) result = common ? result : fmod(a, b);
        return result;
        """,
    "hypot": """
        const T x = fabs(a), y = fabs(b);
        const M large = (x > C(0x1p60)) | (y > C(0x1p60));
        const M small = (x < C(0x1p-40)) & (y < C(0x1p-40));
        const T scale = large ? C(0x1p-70) : (small ? C(0x1p100) : C(1));
        const T back = large ? C(0x1p70) : (small ? C(0x1p-100) : C(1));
        const T p = x * scale, q = y * scale;
        const T result = sqrt(fma(p, p, q * q)) * back;
        return ((x == C(INFINITY)) | (y == C(INFINITY))) ? C(INFINITY) : result;
        """,
}

# Sources for real values, with a variant for each precision.
SOURCES: dict[str, str] = {
    **{name: by_precision(f"return {name}(a);", source) for name, source in _ONE.items()},
    **{name: by_precision(f"return {name}(a, b);", source) for name, source in _TWO.items()},
}
