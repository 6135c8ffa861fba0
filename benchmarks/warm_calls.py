"""Small operators by device kernels: time of a call in this tree over that in another one.

    python -m benchmarks.warm_calls --tree ../other [--rounds 15] [--save NAME]

Both trees have to be built. A round is a process in each, which take turns call by call, because
processes differ in speed by some per cent as a whole. `load definitions` is the time
until device kernels can be called, `first calls` that of the first call of all operators together,
with their programs on disk. Inputs have 32 elements, so a call is the work of enqueuing it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paired import HEADER, Ratio, median_interval, save

TREE = Path(__file__).resolve().parent.parent
LOAD, FIRST = "load definitions", "first calls"
# Prints the names of operators, then for each name that it reads the seconds of the first call, and
# of a later one.
PROCESS = """
import os, sys, time
import torch
import torch_outboard
from torch_outboard import _C

assert os.path.dirname(os.path.dirname(torch_outboard.__file__)) == os.getcwd()
aten, functional = torch.ops.aten, torch.nn.functional
synchronize = torch.ocl.synchronize
torch.ocl.device_count()
start = time.perf_counter()
_C.load_device_kernels()
loading = time.perf_counter() - start

def on_device(*sizes): return torch.randn(*sizes, device="ocl")
x, image, table = on_device(4, 8), on_device(1, 4, 8, 8), on_device(10, 8)
index, few = torch.zeros(4, 8, dtype=torch.int64, device="ocl"), torch.tensor([0, 2], device="ocl")
weight, mean, rstd = on_device(8), on_device(4, 1), on_device(4, 1)
OPERATORS = {
    "add": lambda: x + x,
    "sub": lambda: x - x,
    "gelu": lambda: functional.gelu(x),
    "sum": lambda: x.sum(1),
    "vector_norm": lambda: torch.linalg.vector_norm(x, 2, 1),
    "softmax": lambda: torch.softmax(x, 1),
    "layer_norm": lambda: torch.native_layer_norm(x, (8,), weight, weight, 1e-5),
    "layer_norm_backward": lambda: aten.native_layer_norm_backward(
        x, x, (8,), mean, rstd, weight, weight, [True, True, True]),
    "gather": lambda: torch.gather(x, 1, index),
    "scatter_add": lambda: torch.scatter_add(x, 1, index, x),
    "index_select": lambda: torch.index_select(x, 0, few),
    "embedding": lambda: functional.embedding(few, table),
    "cumsum": lambda: torch.cumsum(x, 1),
    "sort": lambda: torch.sort(x, 1),
    "max_pool2d": lambda: functional.max_pool2d(image, 2),
    "upsample": lambda: functional.interpolate(image, scale_factor=2, mode="bilinear"),
}
print(loading, *OPERATORS, flush=True)
for line in sys.stdin:
    run = OPERATORS[line.strip()]
    start = time.perf_counter()
    run()
    synchronize()
    first = time.perf_counter() - start
    seconds = []
    for _ in range(8):  # the least of several, since kernels share the processors
        start = time.perf_counter()
        for _ in range(20):
            run()
        seconds.append((time.perf_counter() - start) / 20)
        synchronize()
    print(first, min(seconds), flush=True)
"""


class Process:
    """A process in a tree, with kernels on the device.

    Attributes:
        loading: seconds in which definitions were loaded.
        first: seconds of first calls so far.
        operators: what can be timed.
    """

    def __init__(self, tree: Path) -> None:
        settings = {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_PLACEMENT": "device"}
        self._process = subprocess.Popen(
            [str(tree / ".venv" / "bin" / "python"), "-c", PROCESS],
            env=os.environ | settings,
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        loading, *self.operators = self._read().split()
        self.loading, self.first = float(loading), 0.0

    def seconds(self, operator: str) -> float:
        assert self._process.stdin is not None
        print(operator, file=self._process.stdin, flush=True)
        first, later = map(float, self._read().split())
        self.first += first
        return later

    def stop(self) -> None:
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with status {self._process.wait()}")
        return line


def measure_round(trees: tuple[Path, Path], number: int) -> dict[str, tuple[float, float]]:
    """Seconds by operator: in this tree and in the other one."""
    processes = [Process(tree) for tree in trees]
    found = {}
    for name in processes[0].operators:
        taken = [0.0, 0.0]
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            taken[side] = processes[side].seconds(name)
        found[name] = taken[0], taken[1]
    for process in processes:
        process.stop()
    ours, other = processes
    return found | {LOAD: (ours.loading, other.loading), FIRST: (ours.first, other.first)}


def ratio(name: str, ours: Sequence[float], others: Sequence[float]) -> Ratio:
    middle, low, high = median_interval([a / b for a, b in zip(ours, others, strict=True)])
    medians = statistics.median(ours), statistics.median(others)
    return Ratio(name, *medians, middle, low, high, len(ours))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--save", help="name of the file below benchmarks/results")
    options = parser.parse_args()
    trees = TREE, options.tree.resolve()
    rounds = [measure_round(trees, number) for number in range(options.rounds)]
    results = [
        ratio(name, *zip(*(found[name] for found in rounds), strict=True)) for name in rounds[0]
    ]
    print(HEADER, *results, sep="\n")
    if options.save:
        save(options.save, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
