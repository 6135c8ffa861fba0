"""Elementary functions of complex values: sources for the table in table.py.

Branch cuts and signs of zeros are those of C (ISO C99, annex G), as on CPU.

Inverse sines and cosines are by T. E. Hull, T. F. Fairgrieve and P. T. P. Tang, "Implementing the
complex arcsine and arccosine functions using exception handling", ACM TOMS 23 (1997), inverse
tangents by W. Kahan, "Branch cuts for complex elementary functions, or much ado about nothing's
sign bit" (1987).
"""

from torch_outboard.ops.functions.scalar_function import Functions, ScalarFunction

_LOG_2 = "(S)(0.6931471805599453)"
_HALF_PI = "(S)(1.5707963267948966)"
# Squares of smaller numbers are finite, and adding 1 to larger ones changes nothing.
_HUGE = "(S)(1e17)"

# An infinite value without an angle.
_INFINITE = """
    if (isinf(a.x) && !isfinite(a.y)) return a.x < 0 ? (T)(0, 0) : (T)(a.x, (S)NAN);
"""

HELPERS: Functions = {
    # For x, y >= 0: the cosine c for which asin(x + iy) has the real part atan2(x, c), and acos
    # has atan2(c, x); and the imaginary part of asin. y^2 stands nowhere alone: it may underflow.
    "arc_parts": ScalarFunction(
        "S x, S y",
        complex=f"""
        if (!(x <= {_HUGE} && y <= {_HUGE})) {{
          return (T)(y, log(hypot(x / 4, y / 4)) + 3 * {_LOG_2});
        }}
        const S r = hypot(x + 1, y), s = hypot(x - 1, y);
        const S a = (r + s) / 2, sum = a + x, right = r + (x + 1);
        S cosine, logarithm;
        if (x <= 1) {{
          cosine = sqrt(sum / 2 * (y * (y / right) + (s + (1 - x))));
        }} else {{
          cosine = y * sqrt((sum / right + sum / (s + (x - 1))) / 2);
        }}
        if (a > (S)(1.5)) {{
          logarithm = log(a + sqrt(a * a - 1));
        }} else if (x < 1) {{
          const S q = (1 / right + 1 / (s + (1 - x))) / 2;
          logarithm = log1p(y * (y * q + sqrt(q * (a + 1))));
        }} else {{
          const S excess = (y * (y / right) + (s + (x - 1))) / 2;
          logarithm = log1p(excess + sqrt(excess * (a + 1)));
        }}
        return (T)(cosine, logarithm);
        """,
    ),
    # The parts of atanh(x + iy) for x, y >= 0.
    "tangent_parts": ScalarFunction(
        "S x, S y",
        complex=f"""
        if (isinf(x) || isinf(y)) return (T)(0, isnan(y) ? y : {_HALF_PI});
        if (!(x <= {_HUGE} && y <= {_HUGE})) {{
          const S length = hypot(x, y);
          return (T)(x == 0 ? 0 : x / length / length, isnan(length) ? length : {_HALF_PI});
        }}
        const S d = 1 - x;
        const S angle = atan2(2 * y, d * (1 + x) - y * y) / 2;
        if (x == 1 && y < (S)(1e-4)) return (T)(({_LOG_2} - log(y)) / 2, angle);
        return (T)(log1p(4 * x / (d * d + y * y)) / 4, angle);
        """,
    ),
}

SOURCES: dict[str, str] = {
    # Two factors, because the exponential alone may overflow.
    "exp": f"""
        #ifdef OB_DOUBLE
        const S limit = 700;
        #else
        const S limit = 80;
        #endif
        const S half_of_it = exp(a.x > limit ? a.x / 2 : a.x);
        const S rest = a.x > limit ? half_of_it : 1;
        if (a.y == 0) return (T)(half_of_it * rest, a.y);
        {_INFINITE}
        return (T)(half_of_it * cos(a.y) * rest, half_of_it * sin(a.y) * rest);
        """,
    "exp2": f"""
        const S r = exp2(a.x), angle = a.y * {_LOG_2};
        if (a.y == 0) return (T)(r, a.y);
        {_INFINITE}
        return (T)(r * cos(angle), r * sin(angle));
        """,
    "expm1": """
        const S s = sin(a.y / 2);
        return (T)(expm1(a.x) * cos(a.y) - 2 * s * s, exp(a.x) * sin(a.y));
        """,
    # |1 + a|^2 - 1 = 2x + x^2 + y^2, with its rounding errors added, because the sum may cancel.
    "log1p": """
        const S length = hypot(a.x + 1, a.y), angle = atan2(a.y, a.x + 1);
        if (!(length > (S)(0.5) && length < 2)) return (T)(ob_log((T)(a.x + 1, a.y)).x, angle);
        const S p = a.x * a.x, q = a.y * a.y, twice = 2 * a.x;
        const S lost = fma(a.x, a.x, -p) + fma(a.y, a.y, -q);
        const S t = twice + q, u = t - twice;
        const S t_rest = (twice - (t - u)) + (q - u);
        const S v = t + p, w = v - t;
        const S v_rest = (t - (v - w)) + (p - w);
        const S excess = v + (v_rest + t_rest + lost);
        return (T)(excess == 0 && a.x == 0 ? a.x : log1p(excess) / 2, angle);
        """,
    # Computed of a / 8, because the sum could overflow.
    "sqrt": """
        if (isinf(a.y)) return (T)(fabs(a.y), a.y);
        const S large = 2 * sqrt(fabs(a.x) / 8 + hypot(a.x / 8, a.y / 8));
        if (large == 0) return (T)(0, a.y);
        const S small = fabs(a.y) / (2 * large);
        return a.x < 0 ? (T)(small, copysign(large, a.y)) : (T)(large, copysign(small, a.y));
        """,
    # The exponent multiplies the rounding error of the logarithm.
    "pow": """
        #if !defined(OB_DOUBLE) && defined(cl_khr_fp64)
        const double x = a.x, y = a.y;
        const double logarithm = log(sqrt(x * x + y * y)), angle = atan2(y, x);
        const double size = b.x * logarithm - b.y * angle, turn = b.x * angle + b.y * logarithm;
        if (isfinite(size) && isfinite(turn)) {
          const double r = exp(min(size, (double)700));
          return (T)((S)(r * cos(turn)), (S)(r * sin(turn)));
        }
        return ob_exp((T)((S)size, (S)turn));
        #else
        return ob_exp(ob_mul(b, ob_log(a)));
        #endif
        """,
    # high + log(1 + exp(low - high)), where high has the larger real part.
    "logaddexp": """
        if (isnan(a.x) || isnan(a.y) || isnan(b.x) || isnan(b.y)) return (T)((S)NAN, (S)NAN);
        const bool second = b.x > a.x;
        const T high = second ? b : a, low = second ? a : b;
        if (isinf(low.x) && low.x == high.x) {
          return low.x < 0 ? low : ob_log(ob_exp(low) + ob_exp(high));
        }
        return high + ob_log1p(ob_exp(low - high));
        """,
    "asin": """
        const S x = fabs(a.x);
        const T parts = ob_arc_parts(x, fabs(a.y));
        return (T)(x == 0 ? a.x : copysign(atan2(x, parts.x), a.x), copysign(parts.y, a.y));
        """,
    "acos": f"""
        const T parts = ob_arc_parts(fabs(a.x), fabs(a.y));
        return (T)(a.x == 0 ? {_HALF_PI} : atan2(parts.x, a.x), copysign(parts.y, -a.y));
        """,
    # -i asin(ia); acosh, atanh and atan likewise.
    "asinh": """
        const S y = fabs(a.y);
        const T parts = ob_arc_parts(y, fabs(a.x));
        return (T)(copysign(parts.y, a.x), y == 0 ? a.y : copysign(atan2(y, parts.x), a.y));
        """,
    "acosh": """
        const T w = ob_acos(a);
        return (T)(fabs(w.y), copysign(w.x, a.y));
        """,
    "atanh": """
        const T parts = ob_tangent_parts(fabs(a.x), fabs(a.y));
        return (T)(copysign(parts.x, a.x), copysign(parts.y, a.y));
        """,
    "atan": """
        const T parts = ob_tangent_parts(fabs(a.y), fabs(a.x));
        return (T)(copysign(parts.y, a.x), copysign(parts.x, a.y));
        """,
}
