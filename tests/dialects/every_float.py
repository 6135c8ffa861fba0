"""Holds the dialect's mathematics against the C library's in double for every float there is.

    python -m tests.dialects.every_float               # all of one argument
    python -m tests.dialects.every_float --opencl exp  # one, and by the driver ocl's OpenCL

Some 20 to 90 seconds for a function by two processes. It prints a table in Markdown. The worst
arguments are decided with mpmath.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import operator
import os
from collections.abc import Iterable, Sequence
from functools import cache, reduce
from typing import NamedTuple

import numpy as np

from tests.dialects.accuracy import (
    FUNCTIONS,
    Dialect,
    Mathematics,
    OpenCL,
    exact_error,
    reference,
)

CHUNK = 1 << 22
ONE_ARGUMENT = [name for name, function in FUNCTIONS.items() if function.arguments == 1]
FLAGS = ("-march=native", "-O2")


class Found(NamedTuple):
    """Errors of a function over all floats.

    `error` is the largest where the result is finite and should be, in units in the last place, at
    `argument`. The others count arguments: NaN or not, infinite or not by more than rounding, zeros
    of the wrong sign.
    """

    error: float
    argument: float
    result: float
    not_a_number: int
    infinite: int
    sign_of_zero: int

    def joined(self, other: Found) -> Found:
        worst = max(self, other, key=lambda found: found.error)
        return Found(*worst[:3], *map(operator.add, self[3:], other[3:]))

    def decided(self, name: str) -> Found:
        """With the largest error by mpmath, where that has the function."""
        error = exact_error(name, "float", [self.argument], self.result)
        return self if error is None else self._replace(error=error)


class _Tally(ctypes.Structure):
    _types = (ctypes.c_double, *[ctypes.c_float] * 2, *[ctypes.c_int64] * 3)
    _fields_ = list(zip(Found._fields, _types, strict=True))


def hold(mathematics: Mathematics, name: str, first: int, count: int) -> Found:
    """Of the floats whose bits are first ... first + count - 1; count is a multiple of 48 or 16."""
    bits = np.arange(first, first + count, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    got = mathematics(name, "float", x)
    tally = _Tally()
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, got)]
    status = reference().add_to_tally(
        name.encode(), *pointers, ctypes.c_int64(count), ctypes.byref(tally)
    )
    assert status == 0, f"reference.c has no {name} of one argument"
    return Found(*(getattr(tally, field) for field in Found._fields))


@cache
def _by(who: str, name: str) -> Mathematics:
    return OpenCL([name]) if who == "opencl" else Dialect([name], flags=FLAGS)


def _part(task: tuple[str, str, int]) -> Found:
    who, name, first = task
    return hold(_by(who, name), name, first, CHUNK)


def search(
    who: str, names: Iterable[str], jobs: int, chunks: Sequence[int] = range(1 << 10)
) -> Iterable[tuple[str, Found]]:
    """Each function with what was found in the floats of `chunks`, all of them by default."""
    # One thread for each process.
    os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for name in names:
            tasks = [(who, name, chunk * CHUNK) for chunk in chunks]
            found = pool.imap_unordered(_part, tasks, chunksize=min(8, -(-len(tasks) // jobs)))
            yield name, reduce(Found.joined, found).decided(name)


def _row(name: str, found: Sequence[Found]) -> str:
    cells = [name, f"{FUNCTIONS[name].float_limit:g}"]
    for one in found:
        error = f"{one.error:.3f}" if one.error < 1e6 else f"{one.error:.0e}"
        wrong = (one.not_a_number, one.infinite, one.sign_of_zero)
        cells += [error, one.argument.hex(), " / ".join(map(str, wrong))]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="function")
    parser.add_argument("--opencl", action="store_true", help="compare with the driver ocl")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if unknown := set(given.names) - set(ONE_ARGUMENT):
        parser.error(f"unknown, or not of one argument: {', '.join(sorted(unknown))}")
    names = given.names or ONE_ARGUMENT
    sides = ["dialect", "opencl"] if given.opencl else ["dialect"]
    columns = " | ".join(
        f"{who}: largest error | at | NaN / infinite / sign of zero" for who in sides
    )
    print(f"| function | limit | {columns} |\n|---|---|{'---|' * 3 * len(sides)}")
    found = (search(who, names, given.jobs) for who in sides)
    for (name, one), *others in zip(*found, strict=True):
        print(_row(name, [one, *(other for _, other in others)]), flush=True)


if __name__ == "__main__":
    main()
