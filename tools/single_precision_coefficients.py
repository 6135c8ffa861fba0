"""Computes the coefficients of `torch_outboard/ops/functions/single_precision_coefficients.py`.

    python tools/single_precision_coefficients.py > \
        torch_outboard/ops/functions/single_precision_coefficients.py

Each polynomial interpolates a function at Chebyshev nodes, which is close to the best polynomial of
its degree. Functions are evaluated with mpmath, which PyTorch brings along, to 50 digits. Degrees
are the smallest with which rounding in single precision, and not the polynomial, makes the error:
`python tools/single_precision_coefficients.py check` shows what is left in units of 2^-24.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

import mpmath
from mpmath import mp, mpf

mp.dps = 50

Function = Callable[[mpf], mpf]
TINY = mpf("1e-12")


def interpolate(function: Function, low: mpf, high: mpf, degree: int) -> list[mpf]:
    """Coefficients of powers, the constant first."""
    count = degree + 1
    middle, half = (mpf(low) + high) / 2, (mpf(high) - low) / 2
    nodes = [middle + half * mpmath.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    powers = mpmath.matrix([[y**k for k in range(count)] for y in nodes])
    return list(mpmath.lu_solve(powers, mpmath.matrix([function(y) for y in nodes])))


def near(function: Function, limit: mpf) -> Function:
    """The function, with its limit near 0, where it would divide by zero."""
    return lambda y: function(y) if abs(y) > TINY else limit


def erf_center(y: mpf) -> mpf:
    """Of y = x squared: erf(x) / x - 1."""
    x = mpmath.sqrt(y)
    return mpmath.erf(x) / x - 1


def erf_tail(x: mpf) -> mpf:
    """The p with erfc(x) = 2^(-x p)."""
    return -mpmath.log(mpmath.erfc(x), 2) / x


def sin_rest(y: mpf) -> mpf:
    """Of y = x squared: (sin(x) - x) / x^3."""
    x = mpmath.sqrt(y)
    return (mpmath.sin(x) / x - 1) / y


def cos_rest(y: mpf) -> mpf:
    """Of y = x squared: (cos(x) - 1 + y / 2) / x^4."""
    return (mpmath.cos(mpmath.sqrt(y)) - 1 + y / 2) / y**2


def log_rest(y: mpf) -> mpf:
    """Of y = s squared, s = (m - 1) / (m + 1): (log(m) - 2 s) / s^3."""
    s = mpmath.sqrt(y)
    return (2 * mpmath.atanh(s) - 2 * s) / s**3


Fit = tuple[Function, mpf, mpf, int]


def fits() -> dict[str, Fit]:
    """Names, functions, intervals and degrees."""
    half_log2 = mpmath.log(2) / 2 * mpf("1.001")
    root = mpmath.sqrt(2)
    octant = (mp.pi / 4 * mpf("1.001")) ** 2
    return {
        "ERF_CENTER": (near(erf_center, 2 / mpmath.sqrt(mp.pi) - 1), mpf(0), mpf(1), 6),
        "ERF_TAIL": (erf_tail, mpf(1), mpf(4), 6),
        "EXP2": (lambda x: 2**x, -mpf(1) / 2, mpf(1) / 2, 5),
        "EXPM1": (
            near(lambda x: (mpmath.expm1(x) - x) / x**2, mpf(1) / 2), -half_log2, half_log2, 5,
        ),
        "LOG1P": (
            near(lambda x: (mpmath.log1p(x) - x) / x**2, -mpf(1) / 2), 1 / root - 1, root - 1, 8,
        ),
        "LOG": (near(log_rest, mpf(2) / 3), mpf(0), ((root - 1) / (root + 1)) ** 2, 3),
        "SIN": (near(sin_rest, -mpf(1) / 6), mpf(0), octant, 3),
        "COS": (near(cos_rest, mpf(1) / 24), mpf(0), octant, 3),
    }  # fmt: skip


def main() -> None:
    if sys.argv[1:] == ["check"]:
        for name, (function, low, high, degree) in fits().items():
            found = interpolate(function, low, high, degree)[::-1]
            places = [low + (high - low) * mpf(i) / 500 for i in range(501)]
            worst = max(abs(mpmath.polyval(found, y) - function(y)) for y in places)
            print(f"{name:12} {float(worst * 2**24):.3f}")
        return
    print('"""Computed by tools/single_precision_coefficients.py: do not edit."""\n')
    print("# fmt: off")
    # The logarithm of 2, its inverse and pi / 2 as sums of numbers of single precision.
    for name, value, parts in (
        ("LOG_OF_2", mpmath.log(2), 2),
        ("LOG2_OF_E", 1 / mpmath.log(2), 2),
        ("HALF_PI", mp.pi / 2, 3),
    ):
        pieces = []
        for _ in range(parts):
            with mpmath.workprec(24):
                pieces.append(+value)
            value -= pieces[-1]
        print(f"{name} = ({', '.join(repr(float(piece)) for piece in pieces)})")
    for name, fit in fits().items():
        numbers = ", ".join(repr(float(c)) for c in interpolate(*fit))
        line = textwrap.fill(numbers, 96, break_on_hyphens=False)
        print(f"{name} = (\n{textwrap.indent(line, '    ')},\n)")


if __name__ == "__main__":
    main()
