"""Times the dialect's mathematics against that of the driver `ocl`'s OpenCL, on one core.

    python -m benchmarks.dialect_mathematics [function ...]

Both run the same loop over arrays that fit in the second-level cache, in turns. The table has the
ratio of the medians, below 1 where the dialect is faster, with the best vector width of each.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from tests.dialects.accuracy import FUNCTIONS, TYPES, source
from tests.dialects.compiled import load

COUNT, REPEATS, ROUNDS = 1 << 14, 40, 15
DEFAULT = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "erf",
    "erfc",
    "tgamma",
    "lgamma",
    "sqrt",
    "rsqrt",
    "cbrt",
    "rint",
    "pow",
    "atan2",
    "hypot",
    "fmod",
]
LOOP = "for (long r = 0; r < repeats; ++r) for (long i = 0; i < n; i += WIDE)"
OPENING = "void {name}({inputs}__global {type} *out, long n, long repeats) {{ " + LOOP + " {{"
Run = Callable[..., None]


def by_dialect(names: list[str], width: int) -> Callable[[str], Run]:
    text = source(names, OPENING.replace("WIDE", str(width)), "i", "}}", width)
    library = load(text, ["-march=native", "-O3", "-cl-single-precision-constant"])

    def prepare(name: str) -> Run:
        def run(*arrays: np.ndarray) -> None:  # type: ignore[type-arg]
            pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
            getattr(library, name)(*pointers, ctypes.c_long(COUNT), ctypes.c_long(REPEATS))

        return run

    return prepare


def by_opencl(names: list[str], width: int) -> Callable[[str], Run]:
    os.environ["POCL_MAX_PTHREAD_COUNT"] = "1"
    from torch_outboard.drivers import contract, ocl
    from torch_outboard.drivers.client import Client

    client = Client(contract.load(ocl.library_path()))
    queue = client.queue_create(0)
    text = source(names, "__kernel " + OPENING.replace("WIDE", str(width)), "i", "}}", width)
    fp64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    program = client.program_build(0, fp64 + text)

    def prepare(name: str) -> Run:
        kernel = client.kernel_create(program, name)
        buffers: dict[int, int] = {}

        def run(*arrays: np.ndarray) -> None:  # type: ignore[type-arg]
            for array in arrays:
                if array.ctypes.data not in buffers:
                    buffers[array.ctypes.data] = client.allocate(0, array.nbytes)
                    client.write(queue, buffers[array.ctypes.data], array.tobytes())
            addresses = [buffers[a.ctypes.data] for a in arrays]
            counts = (ctypes.c_long(COUNT), ctypes.c_long(REPEATS))
            client.launch(queue, kernel, [1], [1], *addresses, *counts)
            client.call("queue_synchronize", queue)

        return run

    return prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="function")
    names = parser.parse_args().names or DEFAULT
    made = {
        (who.__name__, width): who(names, width)
        for who in (by_dialect, by_opencl)
        for width in (8, 16)
    }
    random = np.random.default_rng(0)
    print("| function | float | double | dialect, ns for a float | for a double |")
    print("|---|---|---|---|---|")
    for name in names:
        ratios, costs = [], []
        for kind, dtype in TYPES.items():
            function = FUNCTIONS[name]
            low, high = max(function.low, -20), min(function.high, 20)
            arrays = [
                random.uniform(low, high, COUNT).astype(dtype) for _ in range(function.arguments)
            ]
            arrays.append(np.empty(COUNT, dtype))
            runs = {key: prepare(f"run_{name}_{kind}") for key, prepare in made.items()}
            times: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
            for turn in range(ROUNDS + 2):
                for key, run in runs.items():
                    start = time.perf_counter()
                    run(*arrays)
                    if turn >= 2:
                        times[key].append(time.perf_counter() - start)
            best = {
                who: min(statistics.median(t) for (by, _), t in times.items() if by == who)
                for who in ("by_dialect", "by_opencl")
            }
            ratios.append(best["by_dialect"] / best["by_opencl"])
            costs.append(best["by_dialect"] / COUNT / REPEATS * 1e9)
        numbers = [f"{r:.2f}" for r in ratios] + [f"{c:.2f}" for c in costs]
        print(f"| {name} | {' | '.join(numbers)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
