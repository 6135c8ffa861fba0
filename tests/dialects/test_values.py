"""Conversions, halves, integers and vectors of the dialect, against exact arithmetic."""

import ctypes
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tests.dialects.compiled import MISSING, Array, load, run

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

INTEGERS = {
    "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16,
    "int": np.int32, "uint": np.uint32, "long": np.int64, "ulong": np.uint64,
}  # fmt: skip
REALS = {"float": np.float32, "double": np.float64}
ALL = {**INTEGERS, **REALS}
MODES = ["", "_rte", "_rtz", "_rtp", "_rtn"]


def values(kind: str) -> Array:
    """The ends of every type, what is near them, halves, and numbers at random; 8 n of them."""
    random = np.random.default_rng(0)
    ends = [
        s * 2**b + d for b in (0, 7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0, 1) for s in (-1, 1)
    ]
    if kind in INTEGERS:
        limits = np.iinfo(INTEGERS[kind])
        found = [e for e in ends if limits.min <= e <= limits.max]
        more = [int(n) for n in random.integers(limits.min, limits.max, 64, INTEGERS[kind])]
        return np.resize(np.array(found + more, INTEGERS[kind]), 128)
    with np.errstate(over="ignore"):
        found = np.array(
            [*ends, *(e + h for e in (0, 1, 2, -1, -3, 254, 65534) for h in (0.5, 0.25))]
        )
        more = random.normal(size=32) * 10.0 ** random.integers(-3, 12, 32)
        special = [0.0, -0.0, math.inf, -math.inf, math.nan]
        special += [1e300, -1e300, 1e-50, 3.4028235677973366e38]
        return np.resize(np.concatenate([found, more, special]), 128).astype(REALS[kind])


def rounded(x: float, mode: str) -> int:
    if mode == "_rte":
        return round(Fraction(x))
    if mode == "_rtp":
        return math.ceil(x)
    return math.floor(x) if mode == "_rtn" else math.trunc(x)


@pytest.mark.parametrize("source", ALL)
def test_saturated_conversions(source: str) -> None:
    """To every integer type, by every rounding mode, of numbers and of vectors."""
    program, names = "", []
    for (kind, mode), width in itertools.product(itertools.product(INTEGERS, MODES), ("", "8")):
        load_x = "x[i]" if not width else "vload8(0, x + i)"
        call = f"convert_{kind}{width}_sat{mode}({load_x})"
        store = f"out[i] = {call};" if not width else f"vstore8({call}, 0, out + i);"
        name = f"to_{kind}{width}{mode}"
        names.append((name, kind, mode))
        program += f"void {name}(const {source} *x, {kind} *out, long n) "
        program += f"{{ for (long i = 0; i < n; i += {width or 1}) {store} }}\n"
    library = load(program, ["-march=native", "-O1"])
    x = values(source)
    for name, kind, mode in names:
        limits = np.iinfo(INTEGERS[kind])
        got = run(library, name, np.empty(x.size, INTEGERS[kind]), x)
        for given, result in zip(x.tolist(), got.tolist(), strict=True):
            if isinstance(given, float) and not math.isfinite(given):
                wanted = 0 if math.isnan(given) else limits.max if given > 0 else limits.min
            else:
                wanted = min(max(rounded(given, mode), limits.min), limits.max)
            assert result == wanted, f"{name}({given}) is {result}"


def check_rounding(mode: str, given: Array, got: Array) -> None:
    """Of numbers that are finite; long doubles hold all of them."""
    exact, result = given.astype(np.longdouble), got.astype(np.longdouble)
    if mode == "_rtz":
        assert (abs(result) <= abs(exact)).all()
    elif mode == "_rtp":
        assert (result >= exact).all()
    elif mode == "_rtn":
        assert (result <= exact).all()
    near = np.isfinite(got) & (abs(exact) < np.finfo(got.dtype).max)
    error = abs(result[near] - exact[near])
    gap = np.spacing(abs(got[near])).astype(np.longdouble)
    assert (2 * error <= gap if mode in ("", "_rte") else error < gap).all()


@pytest.mark.parametrize("kind", REALS)
def test_conversions_to_reals_round_as_they_say(kind: str) -> None:
    program = ""
    for source, mode in itertools.product(ALL, MODES):
        program += f"void from_{source}{mode}(const {source} *x, {kind} *out, long n) "
        program += f"{{ for (long i = 0; i < n; ++i) out[i] = convert_{kind}{mode}(x[i]); }}\n"
    library = load(program, ["-march=native", "-O1"])
    for source, mode in itertools.product(ALL, MODES):
        x = values(source)
        got = run(library, f"from_{source}{mode}", np.empty(x.size, REALS[kind]), x)
        finite = np.isfinite(x)
        np.testing.assert_array_equal(got[~finite], x[~finite])
        check_rounding(mode, x[finite], got[finite])


@pytest.mark.parametrize("flags", [["-march=native", "-O2"], ["-O2"]], ids=["native", "plain"])
def test_halves_of_every_bit_pattern(flags: list[str]) -> None:
    """By instructions, and by bits where the least processor of a kind has none."""
    program = """
    void widen(const ushort *x, float *out, long n) {
      for (long i = 0; i < n; i += 8) vstore8(vload_half8(0, (const half *)(x + i)), 0, out + i);
    }
    """
    for width, mode in itertools.product(("", "4", "16"), MODES):
        for kind in REALS:
            load_x = "x[i]" if not width else f"vload{width}(0, x + i)"
            program += f"void of_{kind}{width}{mode}(const {kind} *x, ushort *out, long n) {{"
            program += f"for (long i = 0; i < n; i += {width or 1})"
            program += f" vstore_half{width}{mode}({load_x}, 0, (half *)(out + i)); }}\n"
    library = load(program, flags)
    patterns = np.arange(1 << 16, dtype=np.uint16)
    wide = run(library, "widen", np.empty(patterns.size, np.float32), patterns)
    np.testing.assert_array_equal(wide, patterns.view(np.float16).astype(np.float32))

    random = np.random.default_rng(0)
    finite = wide[np.isfinite(wide)][: 1 << 14]
    for kind, dtype in REALS.items():
        between = [finite.astype(dtype), (finite * (1 + 2.0**-12)).astype(dtype)]
        between += [np.nextafter(finite * 1.00048828125, 0).astype(dtype)]
        drawn = random.normal(size=1 << 12) * 10.0 ** random.integers(-9, 6, 1 << 12)
        ends = [65519.99, 65520, 65535, 1e9, math.inf, math.nan, 2.0**-25, 3e-8]
        x = np.concatenate([*between, drawn.astype(dtype), np.array(ends * 4, dtype)])
        with np.errstate(over="ignore"):
            nearest = x.astype(np.float16)
        for width, mode in itertools.product(("", "4", "16"), MODES):
            got = run(library, f"of_{kind}{width}{mode}", np.empty(x.size, np.uint16), x)
            back = got.view(np.float16)
            assert (np.isnan(back) == np.isnan(x)).all()
            kept = ~np.isnan(x)
            if mode in ("", "_rte"):
                np.testing.assert_array_equal(back[kept], nearest[kept])
                continue
            check_rounding(mode, x[kept], back[kept])


INTEGER_FUNCTIONS = {
    "add_sat": lambda a, b, low, high, bits: min(max(a + b, low), high),
    "sub_sat": lambda a, b, low, high, bits: min(max(a - b, low), high),
    "hadd": lambda a, b, low, high, bits: (a + b) >> 1,
    "rhadd": lambda a, b, low, high, bits: (a + b + 1) >> 1,
    "mul_hi": lambda a, b, low, high, bits: (a * b) >> bits,
    "abs_diff": lambda a, b, low, high, bits: abs(a - b),
    "max": lambda a, b, low, high, bits: max(a, b),
    "min": lambda a, b, low, high, bits: min(a, b),
    "rotate": lambda a, b, low, high, bits: (
        (a % 2**bits << b % bits) | (a % 2**bits >> (bits - b % bits))
    ),
    "mad_sat": lambda a, b, low, high, bits: min(max(a * b + b, low), high),
    "mad_hi": lambda a, b, low, high, bits: ((a * b) >> bits) + b,
    "popcount": lambda a, b, low, high, bits: (a % 2**bits).bit_count(),
    "clz": lambda a, b, low, high, bits: bits - (a % 2**bits).bit_length(),
}


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_functions(kind: str) -> None:
    program, unsigned = "", {"abs_diff"}
    for name, width in itertools.product(INTEGER_FUNCTIONS, ("", "2", "16")):
        a, b = (f"vload{width}(0, {v} + i)" if width else f"{v}[i]" for v in "xy")
        more = {"mad_sat": f", {b}", "mad_hi": f", {b}"}.get(name, "")
        second = "" if name in ("popcount", "clz") else f", {b}"
        out = ("u" if name in unsigned and not kind.startswith("u") else "") + kind
        call = f"{name}({a}{second}{more})"
        store = f"vstore{width}({call}, 0, out + i);" if width else f"out[i] = {call};"
        program += f"void {name}{width}(const {kind} *x, const {kind} *y, {out} *out, long n) "
        program += f"{{ for (long i = 0; i < n; i += {width or 1}) {store} }}\n"
    library = load(program, ["-march=native", "-O1"])
    first = values(kind)
    x, y = (v.ravel().copy() for v in np.meshgrid(first, first))
    limits = np.iinfo(INTEGERS[kind])
    for name, function in INTEGER_FUNCTIONS.items():
        wanted = [
            function(a, b, limits.min, limits.max, limits.bits) % 2**limits.bits
            for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        for width in ("", "2", "16"):
            got = run(library, name + width, np.empty(x.size, INTEGERS[kind]), x, y)
            assert [g % 2**limits.bits for g in got.tolist()] == wanted, name + width


def test_vectors_in_memory_and_their_elements() -> None:
    library = load("""
    void threes(const float *x, float *out, long n) {
      for (long i = 0; i < n / 3; ++i) vstore3(exp2(vload3(i, x)).zyx, i, out);
    }
    void shuffled(const int *x, int *out, long n) {
      const uint4 order = (uint4)(3, 5, 0, 6);
      for (long i = 0; i < n / 4; ++i)
        vstore4(shuffle2(vload2(i, x), (int2)(7, 8), order), i, out);
    }
    void chosen(const int *x, int *out, long n) {
      for (long i = 0; i < n / 4; ++i) {
        const int4 v = vload4(i, x);
        out[4 * i] = any(v);
        out[4 * i + 1] = all(v);
        out[4 * i + 2] = select((int4)(1), (int4)(2), v).y;
        out[4 * i + 3] = select(1, 2, v.y);
      }
    }
    void counted(const int *x, int *out, long n) {
      for (long i = 0; i < n; ++i) {
        atomic_add(out, x[i]);
        atomic_max(out + 1, x[i]);
        atomic_min(out + 2, x[i]);
        atomic_cmpxchg(out + 3, 0, x[i]);
      }
    }
    """)
    x = np.arange(6, dtype=np.float32)
    assert run(library, "threes", np.empty(6, np.float32), x).tolist() == [4, 2, 1, 32, 16, 8]
    got = run(library, "shuffled", np.empty(8, np.int32), np.arange(4, dtype=np.int32))
    assert got.tolist() == [8, 1, 0, 7, 8, 3, 2, 7]
    masks = np.array([0, -1, 0, 0, -1, -1, -1, -5, 1, 1, 1, 1], np.int32)
    found = run(library, "chosen", np.empty(12, np.int32), masks)
    assert found.reshape(3, 4).tolist() == [[1, 0, 2, 2], [1, 1, 2, 2], [0, 0, 1, 2]]
    got = np.zeros(4, np.int32)
    library.counted(
        *(ctypes.c_void_p(a.ctypes.data) for a in (np.array([5, -3, 9], np.int32), got)),
        ctypes.c_long(3),
    )
    assert got.tolist() == [11, 9, -3, 5]
