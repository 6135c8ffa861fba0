"""The dialect's mathematics is as exact as OpenCL asks, in every width and with every compiler."""

import platform
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from tests.dialects.accuracy import (
    FUNCTIONS,
    TYPES,
    Dialect,
    exact_error,
    samples,
    worst_of,
)
from tests.dialects.compiled import CLANGS, MISSING, load, run
from tests.dialects.every_float import ONE_ARGUMENT, Found, hold, search

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

NAMES = list(FUNCTIONS)
SOME = ["exp", "log", "sin", "tanh", "erf", "pow", "tgamma", "fmod", "atan2"]
# Largest errors in ulp that are looked for, below OpenCL's limits.
OURS = {("tgamma", "double"): 4.0, ("lgamma", "double"): 6.0}
WITHOUT_FMA = ["-march=x86-64", "-O2"]
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")


@cache
def dialect(
    width: int = 16,
    names: tuple[str, ...] = tuple(NAMES),
    flags: tuple[str, ...] = ("-march=native", "-O2"),
    clang: int = 0,
) -> Dialect:
    return Dialect(names, width, flags, CLANGS[clang])


def check(mathematics: Dialect, name: str, count: int = 3 << 10) -> None:
    for kind in TYPES:
        worst = worst_of(mathematics, name, kind, count)
        function = FUNCTIONS[name]
        limit = function.float_limit if kind == "float" else function.double_limit
        limit = min(limit, OURS.get((name, kind), 1.5))
        assert worst.error <= limit, (
            f"{name}{worst.arguments} of {kind} is {worst.got}, {worst.error} ulp away"
        )


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_small(name: str) -> None:
    check(dialect(), name)


def bits_of_all(mathematics: Dialect, names: Sequence[str]) -> list[bytes]:
    """All results; NaN is one value."""
    found = []
    for name in names:
        for kind in TYPES:
            for arguments in samples(name, kind, 3 << 8):
                got = mathematics(name, kind, *arguments)
                found.append(np.where(np.isnan(got), np.nan, got).tobytes())
    return found


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
def test_every_width_gives_the_same_bits(width: int) -> None:
    """clang 22 makes wrong code of vectors of two floats for AVX-512 (mathematics/names.h)."""
    assert bits_of_all(dialect(width), NAMES) == bits_of_all(dialect(16), NAMES)


def test_contraction_changes_nothing() -> None:
    """ "fast" fuses what the source separates, so that bits may change, and accuracy may not."""
    flags = ("-march=native", "-O2", "-ffp-contract=off")
    assert bits_of_all(dialect(16, tuple(SOME), flags), SOME) == bits_of_all(dialect(16), SOME)
    fast = dialect(16, tuple(SOME), ("-march=native", "-O2", "-ffp-contract=fast"))
    for name in SOME:
        check(fast, name)


@on_x86
@pytest.mark.parametrize("name", SOME)
def test_errors_are_small_without_fused_products(name: str) -> None:
    check(dialect(8, tuple(SOME), tuple(WITHOUT_FMA)), name)


@pytest.mark.skipif(len(CLANGS) < 2, reason="there is one clang here")
def test_other_compilers_give_the_same_bits() -> None:
    for i in range(1, len(CLANGS)):
        found = bits_of_all(dialect(16, tuple(SOME), clang=i), SOME)
        assert found == bits_of_all(dialect(16), SOME), CLANGS[i]


@on_x86
def test_fma_is_exact_where_the_processor_has_none() -> None:
    program = """
    void fuse(const float *x, const float *y, const float *z, float *out, long n) {
      for (long i = 0; i < n; i += 8)
        vstore8(fma(vload8(0, x + i), vload8(0, y + i), vload8(0, z + i)), 0, out + i);
    }
    """
    random = np.random.default_rng(1)
    x, y = (random.normal(size=1 << 14).astype(np.float32) for _ in range(2))
    z = (-x * y * (1 + random.normal(size=x.size) * 1e-6)).astype(np.float32)
    results = []
    for flags in (WITHOUT_FMA, ["-march=x86-64-v3", "-O2"]):
        results.append(run(load(program, flags), "fuse", np.empty_like(x), x, y, z).tobytes())
    assert results[0] == results[1]


def test_lgamma_is_close_to_its_zeros() -> None:
    """Two zeros lie between any two integers below -2."""
    zeros = [-2.4570247382208006, -2.7476826467274127, -3.955294284858598, -7.000198333407325]
    zeros += [-9.999997244266672, -15.99999999999995]
    near = [z * (1 + i * 2.0**-e) for z in zeros for e in (20, 35, 50) for i in range(-8, 8)]
    x = np.array([*near, *np.arange(-17.9, -2.1, 0.11)])
    x = np.resize(x, -(-x.size // 48) * 48)
    got = dialect()("lgamma", "double", x)
    pairs = zip(x.tolist(), got.tolist(), strict=True)
    errors = [exact_error("lgamma", "double", [a], result) for a, result in pairs]
    # In units of 1; that of the CPU kernel is 8.
    assert max(e for e in errors if e is not None) < 12


def check_floats(name: str, found: Found) -> None:
    assert found.error <= min(FUNCTIONS[name].float_limit, OURS.get((name, "float"), 1.5)), found
    assert found.not_a_number == found.infinite == found.sign_of_zero == 0, found


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_some_of_every_few_floats(name: str) -> None:
    """96 from each 256th of a power of two: signs, zeros and infinities are right, too."""
    for first in range(0, 1 << 32, 1 << 21):
        check_floats(name, hold(dialect(), name, first, 96))


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_every_float(name: str) -> None:
    for _, found in search("dialect", [name], jobs=2):
        check_floats(name, found)
