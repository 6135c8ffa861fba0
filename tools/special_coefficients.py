"""Computes the coefficients of `torch_outboard/ops/functions/special_coefficients.py`.

    python tools/special_coefficients.py > torch_outboard/ops/functions/special_coefficients.py

For Chebyshev expansions each function is sampled at Chebyshev nodes with mpmath, which PyTorch
brings along, to 50 digits; a discrete cosine transform gives the coefficients, of which those below
2e-18 of the largest one are left out. Expansions of the incomplete gamma
functions are computed in rational numbers. For the functions, see the Digital Library of
Mathematical Functions (https://dlmf.nist.gov).
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from math import comb

import mpmath
from mpmath import mp, mpf

mp.dps = 50

Function = Callable[[mpf], mpf]

# Where the Bessel functions of the first kind change to their asymptotic form.
BESSEL_FAR = 8
ZEROS_J0 = [mpmath.besseljzero(0, k) for k in (1, 2)]
ZEROS_J1 = [mpmath.besseljzero(1, k) for k in (1, 2)]
ERFCX_CENTER = mpf(15) / 4
AIRY_NEAR = (-4, 2)
SMALLEST_NORMAL = mpf(2) ** -1074


def expand(function: Function, low: float, high: float, nodes: int = 120) -> list[float]:
    """Coefficients of f(y) for y in [low, high] in T_k(t), t in [-1, 1]; the first is halved."""
    angles = [mp.pi * (2 * i + 1) / (2 * nodes) for i in range(nodes)]
    half, middle = (mpf(high) - low) / 2, (mpf(high) + low) / 2
    values = [function(middle + half * mpmath.cos(angle)) for angle in angles]
    found = []
    for k in range(nodes // 2):
        total = mpmath.fsum(v * mpmath.cos(k * a) for v, a in zip(values, angles, strict=True))
        found.append(total * (1 if k == 0 else 2) / nodes)
    largest = max(abs(c) for c in found)
    while abs(found[-1]) < largest * mpf("2e-18"):
        found.pop()
    if len(found) == nodes // 2:
        raise ValueError(f"an expansion does not converge: {[float(c) for c in found[-4:]]}")
    return [float(c) for c in found]


def divided(function: Function, zeros: list[mpf], odd: bool) -> Function:
    """Of y = x squared: the function without its zeros."""

    def of_square(y: mpf) -> mpf:
        x = mpmath.sqrt(y)
        factors = mpmath.fprod(y - zero**2 for zero in zeros)
        return function(x) / (factors * (x if odd else 1))

    return of_square


def y0_regular(y: mpf) -> mpf:
    """Y0 without its logarithm (DLMF 10.8.2), of x squared."""
    x = mpmath.sqrt(y)
    return mpmath.bessely(0, x) - 2 / mp.pi * mpmath.log(x / 2) * mpmath.besselj(0, x)


def y1_regular(y: mpf) -> mpf:
    """Y1 without its logarithm and its pole (DLMF 10.8.1), divided by x, of x squared."""
    x = mpmath.sqrt(y)
    singular = mpmath.log(x / 2) * mpmath.besselj(1, x) - 1 / x
    return (mpmath.bessely(1, x) - 2 / mp.pi * singular) / x


def modulation(order: int, sine: bool) -> Function:
    """P, or Q times x, of DLMF 10.17.3-4, of y = (8 / x) squared."""

    def of_square(y: mpf) -> mpf:
        x = BESSEL_FAR / mpmath.sqrt(y)
        phase = x - (2 * order + 1) * mp.pi / 4
        j, n = mpmath.besselj(order, x), mpmath.bessely(order, x)
        scale = mpmath.sqrt(mp.pi * x / 2)
        if sine:
            return x * scale * (n * mpmath.cos(phase) - j * mpmath.sin(phase))
        return scale * (j * mpmath.cos(phase) + n * mpmath.sin(phase))

    return of_square


def airy_decay(y: mpf) -> mpf:
    """Ai(x) without its leading term (DLMF 9.7.5), of y = 1 / zeta."""
    zeta = 1 / y
    x = (3 * zeta / 2) ** (mpf(2) / 3)
    leading = mpmath.exp(-zeta) / (2 * mpmath.sqrt(mp.pi) * x ** (mpf(1) / 4))
    return mpmath.airyai(x) / leading


def airy_wave(sine: bool) -> Function:
    """The factors of cosine and sine in Ai(-x) (DLMF 9.7.9), of y = 1 / zeta squared."""

    def of_square(y: mpf) -> mpf:
        zeta = 1 / mpmath.sqrt(y)
        x = (3 * zeta / 2) ** (mpf(2) / 3)
        scale = mpmath.sqrt(mp.pi) * x ** (mpf(1) / 4)
        phase = zeta - mp.pi / 4
        ai, bi = mpmath.airyai(-x) * scale, mpmath.airybi(-x) * scale
        if sine:
            return zeta * (ai * mpmath.sin(phase) + bi * mpmath.cos(phase))
        return ai * mpmath.cos(phase) - bi * mpmath.sin(phase)

    return of_square


def erfcx(t: mpf) -> mpf:
    """(1 + 2 x) exp(x^2) erfc(x) for t = (x - c) / (x + c)."""
    x = ERFCX_CENTER * (1 + t) / (1 - t)
    if x > 1e6:
        return (1 + 2 * x) / (x * mpmath.sqrt(mp.pi)) * (1 - 1 / (2 * x * x) + 3 / (4 * x**4))
    with mpmath.workdps(60):
        return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def normal_quantile(p: mpf) -> mpf:
    """The x at which the standard normal distribution is p < 1/2."""
    if p > mpf("1e-3"):
        return -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p)
    t = mpmath.sqrt(-2 * mpmath.log(p))
    x = t - mpmath.log(t * mpmath.sqrt(2 * mp.pi)) / t
    for _ in range(20):  # Newton's method for the logarithm
        tail = mpmath.erfc(x / mpmath.sqrt(2)) / 2
        slope = mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mp.pi) / tail
        step = (mpmath.log(tail) - mpmath.log(p)) / slope
        x += step
        if abs(step) < mpf("1e-45"):
            break
    return -x


def ndtri_center(y: mpf) -> mpf:
    """Of y = (p - 1/2) squared: the quantile divided by p - 1/2."""
    d = mpmath.sqrt(y)
    return -normal_quantile(mpf(1) / 2 - d) / d


def ndtri_tail(y: mpf) -> mpf:
    """Of y = 1 / t, t = sqrt(-2 log p): t (t - |x|) - log t."""
    t = 1 / y
    return t * (t + normal_quantile(mpmath.exp(-t * t / 2))) - mpmath.log(t)


def scaled(function: Callable[[int, mpf], mpf], order: int, sign: int) -> Function:
    """Of y = 1 / x: sqrt(x) exp(+-x) times a modified Bessel function."""

    def of_inverse(y: mpf) -> mpf:
        x = 1 / y
        return mpmath.sqrt(x) * mpmath.exp(sign * x) * function(order, x)

    return of_inverse


def bessel() -> dict[str, list[float]]:
    """Names and coefficients of Bessel and Airy functions."""
    far = mpf(BESSEL_FAR) ** 2
    zeta_left, zeta_right = (mpf(2) / 3 * mpf(abs(x)) ** (mpf(3) / 2) for x in AIRY_NEAR)
    j0, j1 = (lambda x: mpmath.besselj(0, x)), (lambda x: mpmath.besselj(1, x))
    return {
        "I0_NEAR": expand(lambda x: mpmath.exp(-x) * mpmath.besseli(0, x), 0, 8),
        "I0_FAR": expand(scaled(mpmath.besseli, 0, -1), 0, mpf(1) / 8),
        "I1_NEAR": expand(lambda x: mpmath.exp(-x) * mpmath.besseli(1, x) / x, 0, 8),
        "I1_FAR": expand(scaled(mpmath.besseli, 1, -1), 0, mpf(1) / 8),
        "K0_FAR": expand(scaled(mpmath.besselk, 0, 1), 0, mpf(1) / 2),
        "K1_FAR": expand(scaled(mpmath.besselk, 1, 1), 0, mpf(1) / 2),
        "J0_NEAR": expand(divided(j0, ZEROS_J0, odd=False), 0, far),
        "J1_NEAR": expand(divided(j1, ZEROS_J1, odd=True), 0, far),
        "Y0_NEAR": expand(y0_regular, 0, far),
        "Y1_NEAR": expand(y1_regular, 0, far),
        "P0_FAR": expand(modulation(0, sine=False), 0, 1),
        "Q0_FAR": expand(modulation(0, sine=True), 0, 1),
        "P1_FAR": expand(modulation(1, sine=False), 0, 1),
        "Q1_FAR": expand(modulation(1, sine=True), 0, 1),
        "AIRY_NEAR": expand(mpmath.airyai, *AIRY_NEAR),
        "AIRY_DECAY": expand(airy_decay, 0, 1 / zeta_right),
        "AIRY_COSINE": expand(airy_wave(sine=False), 0, 1 / zeta_left**2),
        "AIRY_SINE": expand(airy_wave(sine=True), 0, 1 / zeta_left**2),
    }


def special() -> dict[str, list[float]]:
    """Names and coefficients of functions around the normal distribution."""
    t2, tail = mpmath.sqrt(2 * mpmath.log(8)), mpmath.sqrt(-2 * mpmath.log(SMALLEST_NORMAL))
    return {
        "ERFCX": expand(erfcx, -1, 1),
        "NDTRI_CENTER": expand(ndtri_center, 0, (mpf(3) / 8) ** 2),
        "NDTRI_NEAR_TAIL": expand(ndtri_tail, mpf(1) / 6, 1 / t2),
        "NDTRI_FAR_TAIL": expand(ndtri_tail, 1 / tail, mpf(1) / 6),
    }


def stirling(count: int) -> list[Fraction]:
    """The coefficients of 1 / a^k in the scaled gamma function (DLMF 5.11.3)."""
    bernoulli = [Fraction(1)]
    for m in range(1, 2 * count):
        total = sum((Fraction(comb(m + 1, k)) * b
                     for k, b in enumerate(bernoulli)), Fraction(0))  # fmt: skip
        bernoulli.append(-total / (m + 1))
    # The logarithm is the sum of B_2j / (2j (2j - 1) a^(2j - 1)); the series of its exponential.
    logarithm = [Fraction(0)] * (count + 1)
    for j in range(1, count):
        if 2 * j - 1 <= count:
            logarithm[2 * j - 1] = bernoulli[2 * j] / (2 * j * (2 * j - 1))
    result = [Fraction(1)]
    for k in range(1, count):
        result.append(sum((i * logarithm[i] * result[k - i] for i in range(1, k + 1)),
                          Fraction(0)) / k)  # fmt: skip
    return result


def incomplete_gamma(orders: int, powers: int) -> list[list[float]]:
    """Taylor coefficients of c_k(eta), k < orders, in eta (DLMF 8.12.9-11).

    Each order has two powers less, since c_k is divided by a^k: for a > 100 and |eta| < 0.34 terms
    below 5e-18 are left out.
    """
    length = powers + 2 * orders + 4
    # mu = eta + eta^2 / 3 + ...: from eta = mu' mu / (1 + mu), that is mu' mu = eta (1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, length + 2):
        known = sum((Fraction(j) * mu[j] * mu[n + 1 - j] for j in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - known) / (n + 1))
    # eta / mu as a series.
    inverse = [Fraction(1)]
    for n in range(1, length):
        inverse.append(-sum((mu[j + 1] * inverse[n - j] for j in range(1, n + 1)), Fraction(0)))
    gammas = stirling(orders + 1)
    current = inverse[1:]  # c_0 = 1 / mu - 1 / eta
    result = []
    for k in range(orders):
        result.append([float(c) for c in current[: powers - 2 * k]])
        # c_(k + 1) = c_k' / eta + (-1)^(k + 1) g_(k + 1) / mu: poles at 0 cancel.
        sign = (-1) ** (k + 1)
        following = []
        for n in range(len(current) - 2):
            following.append((n + 2) * current[n + 2] + sign * gammas[k + 1] * inverse[n + 1])
        if current[1] + sign * gammas[k + 1] * inverse[0] != 0:
            raise ValueError("the poles do not cancel")
        current = following
    return result


def show(name: str, coefficients: list[float], indent: str = "") -> None:
    print(f"{indent}{name}(")
    numbers = ", ".join(map(repr, coefficients)) + ","
    margin = f"{indent}    "
    print(textwrap.fill(numbers, 100, initial_indent=margin, subsequent_indent=margin,
                        break_on_hyphens=False))  # fmt: skip
    print(indent + (")" if name else "),"))


def main() -> None:
    print('"""Computed by tools/special_coefficients.py: do not edit."""\n')
    print("# fmt: off")
    for name, zeros in (("ZEROS_J0", ZEROS_J0), ("ZEROS_J1", ZEROS_J1)):
        print(f"# Each as a number and what it lacks.\n{name} = (")
        for zero in zeros:
            print(f"    ({float(zero)!r}, {float(zero - mpf(float(zero)))!r}),")
        print(")")
    for name, coefficients in {**bessel(), **special()}.items():
        show(f"{name} = ", coefficients)
        print(name, len(coefficients), "terms", file=sys.stderr)
    print("INCOMPLETE_GAMMA = (")
    for coefficients in incomplete_gamma(7, 15):
        show("", coefficients, "    ")
    print(")")


if __name__ == "__main__":
    main()
