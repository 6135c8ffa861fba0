"""Poisson, binomial and gamma variables by rejection, in NumPy and SciPy: the papers' formulas with
exact logarithms of probabilities, on the documented draws
(torch_outboard/kernels/random_numbers/rejection.cl)."""

from collections.abc import Callable

import numpy as np
from scipy import stats

from tests.random.philox_reference import draws_32

BLOCKS = 64


def block(count: int, seed: int, offset: int, k: int) -> np.ndarray:
    """Block k of the elements 0 to count - 1: uint32, shape (count, 4)."""
    return draws_32(4 * count, seed, offset + k).reshape(count, 4)


def unit(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    draw = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
    return ((draw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _first_accepted(
    count: int, seed: int, offset: int, attempt: Callable[[np.ndarray], tuple]
) -> np.ndarray:
    """Per element the value of the first block that `attempt` (values, accepted) accepts."""
    values = np.full(count, np.nan)
    for k in range(BLOCKS - 1):
        value, accepted = attempt(block(count, seed, offset, k))
        take = np.isnan(values) & accepted
        values[take] = value[take]
    return values


def poisson(rate: float, count: int, seed: int, offset: int) -> np.ndarray:
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b

    def attempt(words: np.ndarray) -> tuple:
        u, v = unit(words[:, 0], words[:, 1]) - 0.5, unit(words[:, 2], words[:, 3])
        s = 0.5 - np.abs(u)
        k = np.floor((2 * a / s + b) * u + rate + 0.43)
        inside = (s >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        outside = (k < 0) | ((s < 0.013) & (v > s))
        under = np.log(v) + np.log(1.1239 + 1.1328 / (b - 3.4)) - np.log(
            a / s**2 + b
        ) <= stats.poisson.logpmf(k, rate)
        return k, inside | (~outside & under)

    return _first_accepted(count, seed, offset, attempt)


def binomial(n: int, p: float, count: int, seed: int, offset: int) -> np.ndarray:
    """For p up to 1/2."""
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    distribution = stats.binom(n, p)

    def attempt(words: np.ndarray) -> tuple:
        u, v = unit(words[:, 0], words[:, 1]) - 0.5, unit(words[:, 2], words[:, 3])
        s = 0.5 - np.abs(u)
        k = np.floor((2 * a / s + b) * u + n * p + 0.5)
        possible = (k >= 0) & (k <= n)
        inside = (s >= 0.07) & (v <= 0.92 - 4.2 / b)
        quotient = distribution.logpmf(k) - distribution.logpmf(np.floor((n + 1) * p))
        under = np.log(v * (2.83 + 5.1 / b) * deviation / (a / s**2 + b)) <= quotient
        return k, possible & (inside | under)

    return _first_accepted(count, seed, offset, attempt)


def gamma(alpha: float, count: int, seed: int, offset: int) -> np.ndarray:
    if alpha < 1:
        last = block(count, seed, offset, BLOCKS - 1)
        boost = unit(last[:, 0], last[:, 1]) ** (1 / alpha)
        return boost * gamma(alpha + 1, count, seed, offset)
    d = alpha - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def attempt(words: np.ndarray) -> tuple:
        radius = np.sqrt(-2 * np.log(unit(words[:, 0], words[:, 1])))
        x = radius * np.sin(np.pi / 2 * ((words[:, 2] + 0.5) * 2.0**-31 - 1))
        u = (words[:, 3] + 0.5) * 2.0**-32
        v = (1 + c * x) ** 3
        with np.errstate(invalid="ignore"):
            under = np.log(u) < 0.5 * x**2 + d * (1 - v + np.log(v))
        return d * v, (v > 0) & ((u < 1 - 0.0331 * x**4) | under)

    return _first_accepted(count, seed, offset, attempt)
