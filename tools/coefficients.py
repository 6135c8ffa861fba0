"""Computes the polynomials and constants of the clang dialect's mathematics; setup.py runs it.

    python tools/coefficients.py > torch_outboard/dialects/clang/mathematics/coefficients.h

Each function is interpolated at Chebyshev nodes with mpmath, which PyTorch brings along, to 60
digits; the degree is the least one whose error, measured on a grid, is below the tolerance. Numbers
are written by their bits, since -cl-single-precision-constant makes floats of literals.
"""

from __future__ import annotations

import re
import struct
import textwrap
from collections.abc import Callable
from typing import NamedTuple

import mpmath
from mpmath import mp, mpf

mp.dps = 60

Function = Callable[[mpf], mpf]
LN2, PI = mpmath.log(2), +mp.pi


class Fit(NamedTuple):
    """A polynomial in z on [low, high]; `share` is its maximum share of the result."""

    name: str
    function: Function
    low: mpf
    high: mpf
    share: mpf
    types: str = "fd"  # f: 2^-29 of the result, d: 2^-59, s: 2^-36 in double, x: 2^-67


def series(function: Function, terms: int) -> Function:
    """`function`, which cannot be evaluated near 0, and there its Taylor series."""
    cache: list[mpf] = []

    def evaluate(z: mpf) -> mpf:
        if abs(z) > mpf("1e-3"):
            return function(z)
        if not cache:
            circle = [mpf("0.01") * mpmath.expjpi(mpf(2 * k) / 64) for k in range(64)]
            values = [function(point) for point in circle]
            for n in range(terms):
                turned = (v * mpmath.expjpi(-mpf(2 * k * n) / 64) for k, v in enumerate(values))
                cache.append((mpmath.fsum(turned) / 64).real / mpf("0.01") ** n)
        return mpmath.polyval(cache[::-1], z)

    return evaluate


def root(z: mpf) -> mpf:
    return mpmath.sqrt(z)


def atanh_of_root(z: mpf) -> mpf:
    return mpmath.atanh(root(z)) / root(z)


EIGHTH = (mpmath.sqrt(2) - 1) ** 2  # of tan(pi / 8)
THIRD = mpf(1) / 3
ATANH_HIGH = mpf("0.02945")
QUARTER = (PI / 4 + mpf("0.001")) ** 2
FITS = [
    Fit("EXP", lambda r: (mpmath.exp(r) - 1 - r) / r**2, -LN2 / 2, LN2 / 2, mpf("0.06")),
    Fit("EXP_SHORT", lambda r: mpmath.expm1(r) / r, -LN2 / 2, LN2 / 2, mpf("0.4"), "s"),
    Fit(
        "LOG_SERIES",
        lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3,
        -THIRD,
        THIRD,
        mpf("0.12"),
        "f",
    ),
    Fit("LOG", lambda z: 2 * (atanh_of_root(z) - 1) / z, mpf(0), ATANH_HIGH, ATANH_HIGH, "ds"),
    Fit(
        "ATANH_REST",
        lambda z: (atanh_of_root(z) - 1 - z / 3) / z**2,
        mpf(0),
        ATANH_HIGH,
        ATANH_HIGH**2,
        "x",
    ),
    Fit("SIN", lambda z: (mpmath.sin(root(z)) / root(z) - 1) / z, mpf(0), QUARTER, QUARTER, "ds"),
    Fit(
        "COS",
        lambda z: (mpmath.cos(root(z)) - 1 + z / 2) / z**2,
        mpf(0),
        QUARTER,
        QUARTER**2,
        "ds",
    ),
    Fit("ATAN", lambda z: (mpmath.atan(root(z)) / root(z) - 1) / z, mpf(0), EIGHTH, EIGHTH, "ds"),
    Fit(
        "ASIN",
        lambda z: (mpmath.asin(root(z)) / root(z) - 1) / z,
        mpf(0),
        mpf("0.2501"),
        mpf("0.25"),
        "ds",
    ),
    Fit(
        "TANH",
        lambda z: (mpmath.tanh(root(z)) / root(z) - 1) / z,
        mpf(0),
        mpf("0.73"),
        mpf("0.3"),
    ),
    Fit(
        "SINH",
        lambda z: (mpmath.sinh(root(z)) / root(z) - 1) / z,
        mpf(0),
        mpf(1),
        mpf("0.2"),
        "ds",
    ),
    Fit("ERF", lambda z: mpmath.erf(root(z)) / root(z) - 1, mpf(0), mpf("0.5"), mpf("0.2"), "d"),
    Fit("ERF", lambda z: mpmath.erf(root(z)) / root(z) - 1, mpf(0), mpf("0.82"), mpf("0.2"), "f"),
    # erf(x) = 1 - exp(-h(x)), for x in [0.9, 4].
    Fit(
        "ERF_EXPONENT",
        lambda a: -mpmath.log(mpmath.erfc(a)),
        mpf("0.89"),
        mpf("4.1"),
        mpf("0.02"),
        "f",
    ),
    # erfc(x) exp(x^2) (1 + 2 x) in (x - 4) / (x + 4), for x in [0.5, 28].
    Fit(
        "ERFC",
        lambda t: (
            mpmath.erfc(4 * (1 + t) / (1 - t))
            * mpmath.exp((4 * (1 + t) / (1 - t)) ** 2)
            * (1 + 8 * (1 + t) / (1 - t))
        ),
        mpf(-7) / 9,
        mpf(3) / 4,
        mpf(1),
        "ds",
    ),
    # ln gamma(2 + f) / f.
    Fit(
        "LGAMMA",
        lambda f: mpmath.loggamma(2 + f).real / f if f.imag == 0 else mpmath.loggamma(2 + f) / f,
        mpf("-0.5"),
        mpf("0.5"),
        mpf(2),
        "ds",
    ),
    # The remainder of Stirling's formula, times x, in 1 / x^2, for x >= 8.
    Fit(
        "STIRLING",
        lambda z: (
            (
                mpmath.loggamma(1 / root(z))
                - (1 / root(z) - mpf("0.5")) * mpmath.log(1 / root(z))
                + 1 / root(z)
                - mpmath.log(2 * PI) / 2
            )
            / root(z)
        ),
        mpf("1e-9"),
        mpf(1) / 64,
        mpf("0.01"),
        "ds",
    ),
]
ENDINGS = {
    "f": ("FLOAT", mpf(2) ** -29),
    "d": ("DOUBLE", mpf(2) ** -59),
    "s": ("SHORT", mpf(2) ** -36),
    "x": ("DOUBLE", mpf(2) ** -67),
}


def interpolate(function: Function, low: mpf, high: mpf, degree: int) -> list[mpf]:
    """Coefficients by rising power."""
    half, middle = (high - low) / 2, (high + low) / 2
    n = degree + 1
    angles = [PI * (2 * i + 1) / (2 * n) for i in range(n)]
    values = [function(middle + half * mpmath.cos(a)) for a in angles]
    total = [mpf(0)] * n
    before, now = [mpf(1)] + [mpf(0)] * degree, [-middle / half, 1 / half] + [mpf(0)] * degree
    for k in range(n):
        sum_k = mpmath.fsum(v * mpmath.cos(k * a) for v, a in zip(values, angles, strict=True))
        factor = sum_k * (1 if k == 0 else 2) / n
        for i in range(n):
            total[i] += factor * before[i]
        following = [-b for b in before]
        for i in range(n):
            following[i] -= 2 * middle / half * now[i]
            if i > 0:
                following[i] += 2 / half * now[i - 1]
        before, now = now[:n], following
    return total


def fit(one: Fit, tolerance: mpf) -> list[mpf]:
    # Stirling's series diverges.
    function = one.function if one.name == "STIRLING" else series(one.function, 20)
    grid = [one.low + (one.high - one.low) * i / 60 for i in range(61)]
    wanted = [function(z) for z in grid]
    for degree in range(2, 40):
        found = interpolate(function, one.low, one.high, degree)
        error = max(
            abs(mpmath.polyval(found[::-1], z) - w) for z, w in zip(grid, wanted, strict=True)
        )
        if error * one.share < tolerance:
            return found
    raise ValueError(f"{one.name} does not converge")


def as_float(value: mpf) -> str:
    digits = float.hex(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    return re.sub(r"\.?0*p", "p", digits) + "f"


def as_bits(value: mpf, kind: str) -> str:
    code = "<If" if kind == "f" else "<Qd"
    (bits,) = struct.unpack(f"<{code[1]}", struct.pack(f"<{code[2]}", float(value)))
    return f"0x{bits:08x}" if kind == "f" else f"0x{bits:016x}UL"


def as_double(value: mpf) -> str:
    return f"OB_DOUBLE_BITS({as_bits(value, 'd').removesuffix('UL')})"


def cut(value: mpf, bits: int) -> mpf:
    """Its leading bits."""
    exponent = int(mpmath.floor(mpmath.log(abs(value), 2)))
    unit = mpf(2) ** (exponent + 1 - bits)
    return mpmath.nint(value / unit) * unit


def constants() -> list[tuple[str, str]]:
    """Numbers in parts; the first ends in zeros so that its products with integers are exact."""
    rows = []
    for ending, write, bits, whole in (
        ("FLOAT", as_float, 15, 24),
        ("DOUBLE", as_double, 41, 53),
    ):
        for name, value in (("LN2", LN2), ("LOG10_2", mpmath.log10(2))):
            high = cut(value, bits)
            rows.append((f"{name}_HIGH_{ending}", write(high)))
            rows.append((f"{name}_LOW_{ending}", write(value - high)))
        for name, value in (
            ("LOG2_E", 1 / LN2),
            ("LOG2_10", mpmath.log(10, 2)),
            ("LOG10_E", mpmath.log10(mp.e)),
            ("NATURAL_2", LN2),
            ("NATURAL_10", mpmath.log(10)),
            ("PI", PI),
            ("HALF_PI", PI / 2),
            ("QUARTER_PI", PI / 4),
            ("INVERSE_PI", 1 / PI),
        ):
            high = cut(value, whole)
            rows.append((f"{name}_{ending}", write(high)))
            rows.append((f"{name}_REST_{ending}", write(value - high)))
    third = cut(mpf(1) / 3, 53)
    rows += [("THIRD", as_double(third)), ("THIRD_REST", as_double(mpf(1) / 3 - third))]
    rows += [("TWO_OVER_PI", as_double(2 / PI))]
    rows += [("HALF_LOG_2_PI", as_double(cut(mpmath.log(2 * PI) / 2, 53)))]
    rest = mpmath.log(2 * PI) / 2 - cut(mpmath.log(2 * PI) / 2, 53)
    rows += [("HALF_LOG_2_PI_REST", as_double(rest))]
    left = PI / 2
    for part in ("A", "B", "C"):
        high = cut(left, 33)
        rows.append((f"HALF_PI_{part}", as_double(high)))
        left -= high
        rows.append((f"HALF_PI_AFTER_{part}", as_double(left)))
    return rows


def print_list(name: str, items: list[str]) -> None:
    """Defines a macro as the items and commas, in lines of 100 columns."""
    items = [f"{item}," for item in items[:-1]] + items[-1:]
    lines = textwrap.wrap(" ".join(items), 96, break_on_hyphens=False)
    print(" \\\n  ".join([f"#define OB_{name}", *lines]))


def main() -> None:
    print("/* Written by tools/coefficients.py. Polynomials: bits, by rising power. */")
    print("#ifndef OUTBOARD_DIALECT_COEFFICIENTS_H\n#define OUTBOARD_DIALECT_COEFFICIENTS_H\n")
    print("/* clang-format off */")
    for name, text in constants():
        print(f"#define OB_{name} {text}")
    for one in FITS:
        for kind in one.types:
            ending, tolerance = ENDINGS[kind]
            found = fit(one, tolerance)
            coefficients = [as_bits(c, kind) for c in found]
            name = one.name.removesuffix("_SHORT")
            if one.name == "ERFC" and kind == "d":
                rest = found[0] - cut(found[0], 53)
                print(f"\n#define OB_ERFC_FIRST_REST {as_double(rest)}")
            print()
            print_list(f"{name}_{ending}", coefficients)
    print("\n/* The bits of 2 / pi after the point, 64 at a time. */")
    print_list("TWO_OVER_PI_BITS", [f"0x{word:016x}UL" for word in two_over_pi()])
    print("/* clang-format on */\n\n#endif")


def two_over_pi() -> list[int]:
    """Enough for the largest double: 1024 bits before the point of x, and 192 significant ones."""
    words = 20
    with mp.workprec(64 * words + 100):
        bits = int(mpmath.floor(2 / mp.pi * mpf(2) ** (64 * words)))
    return [(bits >> (64 * (words - 1 - i))) & (2**64 - 1) for i in range(words)]


if __name__ == "__main__":
    main()
