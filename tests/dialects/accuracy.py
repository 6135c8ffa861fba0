"""Measures the errors of the dialect's mathematics.

    python -m tests.dialects.accuracy                       # samples, all functions
    python -m tests.dialects.accuracy --opencl              # and those of the `ocl` driver's OpenCL

Errors are in units in the last place of the exact result, which the C library gives in long double
(reference.c); the worst arguments are checked once more with mpmath. It prints a table in Markdown.
every_float.py tries all floats.
"""

import argparse
import ctypes
import math
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import mpmath
import numpy as np

from tests.dialects.compiled import Array, load, load_c, run

WIDTH = 16  # and the number of arguments is a multiple of 48, for vectors of three
TYPES = {"float": np.float32, "double": np.float64}


class Function(NamedTuple):
    """Errors that OpenCL 1.2 allows (full profile), and the arguments that matter most."""

    float_limit: float
    double_limit: float
    low: float
    high: float
    arguments: int = 1


EXACT = 0.5
# lgamma has no limit in OpenCL. Near its zeros below 0 its error is absolute, as that of PyTorch's
# CPU kernel is: in units of 1.
FUNCTIONS = {
    "exp": Function(3, 3, -110, 95),
    "exp2": Function(3, 3, -155, 130),
    "exp10": Function(3, 3, -48, 40),
    "expm1": Function(3, 3, -20, 95),
    "log": Function(3, 3, 0, 3),
    "log2": Function(3, 3, 0, 3),
    "log10": Function(3, 3, 0, 3),
    "log1p": Function(2, 2, -1, 3),
    "sin": Function(4, 4, -100, 100),
    "cos": Function(4, 4, -100, 100),
    "tan": Function(5, 5, -100, 100),
    "sinpi": Function(4, 4, -10, 10),
    "cospi": Function(4, 4, -10, 10),
    "tanpi": Function(6, 6, -10, 10),
    "asin": Function(4, 4, -1, 1),
    "acos": Function(4, 4, -1, 1),
    "atan": Function(5, 5, -5, 5),
    "asinpi": Function(5, 5, -1, 1),
    "acospi": Function(5, 5, -1, 1),
    "atanpi": Function(5, 5, -5, 5),
    "sinh": Function(4, 4, -95, 95),
    "cosh": Function(4, 4, -95, 95),
    "tanh": Function(5, 5, -10, 10),
    "asinh": Function(4, 4, -50, 50),
    "acosh": Function(4, 4, 1, 5),
    "atanh": Function(5, 5, -1, 1),
    "erf": Function(16, 16, -6, 6),
    "erfc": Function(16, 16, -6, 28),
    "tgamma": Function(16, 16, -45, 40),
    "lgamma": Function(math.inf, math.inf, -0.5, 20),
    "sqrt": Function(3, EXACT, 0, 100),
    "rsqrt": Function(2, 2, 0, 100),
    "cbrt": Function(2, 2, -100, 100),
    "rint": Function(0, 0, -100, 100),
    "round": Function(0, 0, -100, 100),
    "trunc": Function(0, 0, -100, 100),
    "floor": Function(0, 0, -100, 100),
    "ceil": Function(0, 0, -100, 100),
    "logb": Function(0, 0, -100, 100),
    "pow": Function(16, 16, -50, 50, 2),
    "powr": Function(16, 16, 0, 50, 2),
    "atan2": Function(6, 6, -50, 50, 2),
    "atan2pi": Function(6, 6, -50, 50, 2),
    "hypot": Function(4, 4, -50, 50, 2),
    "fmod": Function(0, 0, -50, 50, 2),
    "remainder": Function(0, 0, -50, 50, 2),
    "fdim": Function(EXACT, EXACT, -50, 50, 2),
    "fmax": Function(0, 0, -50, 50, 2),
    "fmin": Function(0, 0, -50, 50, 2),
    "copysign": Function(0, 0, -50, 50, 2),
}
# Ranges of double that are wider.
WIDER = {
    "exp": (-760.0, 712.0),
    "exp2": (-1080.0, 1026.0),
    "exp10": (-326.0, 310.0),
    "expm1": (-45.0, 712.0),
    "sinh": (-712.0, 712.0),
    "cosh": (-712.0, 712.0),
    "tgamma": (-180.0, 172.0),
}


class Mathematics(Protocol):
    """Computes functions of arrays whose size is a multiple of 48."""

    def __call__(self, name: str, kind: str, *arguments: Array) -> Array: ...


def source(names: Sequence[str], opening: str, index: str, closing: str, width: int) -> str:
    """Source of run_<name>_<type> for each function; `opening` and `closing` enclose a step."""
    vector = "" if width == 1 else str(width)
    code = ""
    for kind in TYPES:
        for name in names:
            arguments = "xy"[: FUNCTIONS[name].arguments]
            if width == 1:
                call = f"out[{index}] = {name}({', '.join(f'{a}[{index}]' for a in arguments)});"
            else:
                loads = (f"vload{vector}(0, {a} + {index})" for a in arguments)
                call = f"vstore{vector}({name}({', '.join(loads)}), 0, out + {index});"
            inputs = "".join(f"const __global {kind} *{a}, " for a in arguments)
            code += opening.format(name=f"run_{name}_{kind}", inputs=inputs, type=kind)
            code += f" {call} {closing}\n"
    return code


class Dialect:
    """By the dialect, in this process."""

    def __init__(
        self,
        names: Sequence[str],
        width: int = WIDTH,
        flags: Sequence[str] = ("-march=native", "-O2"),
        clang: Sequence[str] | None = None,
    ) -> None:
        opening = (
            "void {name}({inputs}__global {type} *out, long n) "
            f"{{{{ for (long i = 0; i < n; i += {width}) {{{{"
        )
        code = source(names, opening, "i", "}}", width)
        self._library = load(code, [*flags, "-cl-single-precision-constant"], clang)

    def __call__(self, name: str, kind: str, *arguments: Array) -> Array:
        out = np.empty_like(arguments[0])
        return run(self._library, f"run_{name}_{kind}", out, *arguments)


class OpenCL:
    """By the OpenCL of the driver `ocl`."""

    def __init__(self, names: Sequence[str], width: int = 8) -> None:
        from torch_outboard.drivers import contract, ocl
        from torch_outboard.drivers.client import Client

        self._client = Client(contract.load(ocl.library_path()))
        self._queue = self._client.queue_create(0)
        opening = "__kernel void {name}({inputs}__global {type} *out) {{"
        fp64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
        index = f"{width} * get_global_id(0)"
        self._width = width
        self._program = self._client.program_build(
            0, fp64 + source(names, opening, index, "}", width)
        )

    def __call__(self, name: str, kind: str, *arguments: Array) -> Array:
        client, size = self._client, arguments[0].nbytes
        kernel = client.kernel_create(self._program, f"run_{name}_{kind}")
        buffers = [client.allocate(0, size) for _ in range(len(arguments) + 1)]
        for buffer, argument in zip(buffers, arguments, strict=False):
            client.write(self._queue, buffer, argument.tobytes())
        items = arguments[0].size // self._width
        client.launch(self._queue, kernel, [items], [1], *buffers)
        client.queue_synchronize(self._queue)
        data = client.read(self._queue, buffers[-1], size)
        for buffer in buffers:
            client.deallocate(0, buffer)
        return np.frombuffer(data, arguments[0].dtype).copy()


@cache
def reference() -> ctypes.CDLL:
    library = load_c(Path(__file__).parent / "reference.c")
    library.largest_error.restype = ctypes.c_double
    return library


def largest_error(
    name: str, kind: str, arguments: Sequence[Array], got: Array
) -> tuple[float, int]:
    """In ulp, and where it is."""
    worst = ctypes.c_int64()
    with np.errstate(invalid="ignore"):  # of signaling NaN
        wide = [a.astype(np.float64) for a in (arguments[0], arguments[-1], got)]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in wide]
    error: float = reference().largest_error(
        name.encode(),
        ctypes.c_int(kind == "float"),
        *pointers,
        ctypes.c_int64(got.size),
        ctypes.byref(worst),
    )
    assert error >= 0, f"reference.c has no {name}"
    return error, worst.value


def samples(name: str, kind: str, count: int, seed: int = 1) -> Iterator[list[Array]]:
    """Arguments: any bits, the range that matters, around 0 and 1, and special values.

    There are `count` of each kind, a multiple of 48.
    """
    random = np.random.default_rng(seed)
    dtype, function = TYPES[kind], FUNCTIONS[name]
    integers = random.integers(0, 2 ** (8 * dtype().nbytes), count, np.dtype(f"u{dtype().nbytes}"))
    bits = integers.view(dtype)
    low, high = (
        WIDER.get(name, (function.low, function.high)) if kind == "double" else function[2:4]
    )
    range_ = random.uniform(low, high, count).astype(dtype)
    signs = random.choice([-1, 1], count)
    small = (signs * np.exp(random.uniform(-12, 3, count))).astype(dtype)
    ones = (1 + random.normal(0, 0.05, count)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    values = [0, 1, 2, 0.5, 3, 1e-3, 100, math.inf, math.nan, np.finfo(dtype).tiny, tiny, 1e30]
    special = np.array([s * v for v in values for s in (1, -1)], dtype)
    if function.arguments == 1:
        special = np.resize(special, 48)
        yield from ([x] for x in (bits, range_, small, ones, special))
        return
    halves = (random.integers(-20, 20, count) * 0.5).astype(dtype)
    yield [bits, random.permutation(bits)]
    yield [range_, random.permutation(range_)]
    yield [small, ones]
    yield [ones, small]
    yield [range_, halves]
    yield [bits, np.multiply(bits, dtype(0.3), where=np.isfinite(bits), out=bits.copy())]
    pairs = [np.array(p, dtype) for p in np.meshgrid(special, special)]
    yield [np.resize(p, -(-p.size // 48) * 48) for p in pairs]


def exact(name: str, *arguments: float) -> mpmath.mpf | None:
    """By mpmath to 200 bits; None where that has no such function."""
    with mpmath.workprec(2200 if name in ("sin", "cos", "tan") else 250):
        x = [mpmath.mpf(a) for a in arguments]
        if name in ("fmod", "remainder"):  # mpmath rounds them
            return None
        functions = {
            "exp2": lambda: mpmath.power(2, x[0]),
            "exp10": lambda: mpmath.power(10, x[0]),
            "log2": lambda: mpmath.log(x[0], 2),
            "tgamma": lambda: mpmath.gamma(x[0]),
            "lgamma": lambda: mpmath.log(abs(mpmath.gamma(x[0]))),
            "cbrt": lambda: mpmath.sign(x[0]) * mpmath.cbrt(abs(x[0])),
            "rsqrt": lambda: 1 / mpmath.sqrt(x[0]),
            "asinpi": lambda: mpmath.asin(x[0]) / mpmath.pi,
            "acospi": lambda: mpmath.acos(x[0]) / mpmath.pi,
            "atanpi": lambda: mpmath.atan(x[0]) / mpmath.pi,
            "atan2pi": lambda: mpmath.atan2(*x) / mpmath.pi,
            "tanpi": lambda: mpmath.sinpi(x[0]) / mpmath.cospi(x[0]),
            "pow": lambda: mpmath.power(*x),
            "powr": lambda: mpmath.power(*x),
        }
        call = functions.get(name, lambda: getattr(mpmath, name)(*x))
        try:
            return +call()
        except (AttributeError, ValueError, ZeroDivisionError, TypeError):
            return None


def exact_error(name: str, kind: str, arguments: Sequence[float], got: float) -> float | None:
    """In ulp by mpmath; None where it has no such function, or the result is no finite number."""
    if not all(map(math.isfinite, [*arguments, got])):
        return None
    result = exact(name, *arguments)
    if result is None or not mpmath.isfinite(result) or isinstance(result, mpmath.mpc):
        return None
    digits, least = (24, -126) if kind == "float" else (53, -1022)
    least = 0 if name == "lgamma" and arguments[0] < 0 else least
    exponent = max(least, mpmath.frexp(result)[1] - 1) if result != 0 else least
    with mpmath.workprec(250):
        return float(abs(mpmath.mpf(got) - result) / mpmath.mpf(2) ** (exponent - digits + 1))


class Worst(NamedTuple):
    error: float
    arguments: tuple[float, ...] = ()
    got: float = math.nan


def worst_of(mathematics: Mathematics, name: str, kind: str, count: int) -> Worst:
    """The largest error in samples."""
    worst = Worst(-1.0)
    for arguments in samples(name, kind, count):
        got = mathematics(name, kind, *arguments)
        error, index = largest_error(name, kind, arguments, got)
        if error > worst.error:
            worst = Worst(error, tuple(float(a[index]) for a in arguments), float(got[index]))
    checked = exact_error(name, kind, worst.arguments, worst.got)
    return worst if checked is None else worst._replace(error=checked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="function")
    parser.add_argument("--samples", type=int, default=1 << 18, help="of each kind, rounded up")
    parser.add_argument("--opencl", action="store_true", help="compare with the driver ocl")
    given = parser.parse_args()
    names = given.names or list(FUNCTIONS)
    count = -(-given.samples // 48) * 48
    dialect = Dialect(names)
    others: list[Mathematics] = [OpenCL(names)] if given.opencl else []
    columns = [f"{kind}{of}" for kind in TYPES for of in (["", ", OpenCL"] if others else [""])]
    print(f"| function | limit | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for name in names:
        row = [
            f"{worst_of(one, name, kind, count).error:.3f}"
            for kind in TYPES
            for one in (dialect, *others)
        ]
        print(f"| {name} | {FUNCTIONS[name].float_limit:g} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
