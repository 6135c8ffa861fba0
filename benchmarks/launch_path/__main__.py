"""Time and calls of OpenCL that an operator costs the host, with a GPU that does nothing.

    python -m benchmarks.launch_path [--json] [names...]

The driver `ocl` gets an OpenCL whose calls return at once (stub_opencl.cpp), so the times are those
of PyTorch, the kit and the driver, without OpenCL's. The reference is the same call on CPU tensors,
in turns: with 16 elements that is PyTorch's cost. The best of several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.launch_path import stub
from benchmarks.launch_path.works import WORKS, Call
from torch_outboard.columns import print_columns

RUNS = 25
RUN_SECONDS = 0.01
COUNTED = ("clSetKernelArg", "clEnqueueNDRangeKernel", "clWaitForEvents")


def seconds_of(call: Call, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(prepare: Callable[[str], Call], calls_of_opencl: stub.Calls) -> dict[str, float]:
    """Microseconds of a call on both devices, and calls of OpenCL by name."""
    call, on_cpu = prepare("ocl"), prepare("cpu")
    warm = min(seconds_of(call, 10) for _ in range(5))
    seconds_of(on_cpu, 50)
    calls = max(10, int(RUN_SECONDS / warm))
    best = best_on_cpu = float("inf")
    before = [calls_of_opencl[name] for name in COUNTED]
    for _ in range(RUNS):
        best = min(best, seconds_of(call, calls))
        best_on_cpu = min(best_on_cpu, seconds_of(on_cpu, calls))
    counted = zip(COUNTED, before, strict=True)
    per_call = {name: (calls_of_opencl[name] - was) / (RUNS * calls) for name, was in counted}
    return {"ocl": best * 1e6, "cpu": best_on_cpu * 1e6, **per_call}


def measure_apart(names: list[str]) -> dict[str, dict[str, float]]:
    """The same in a process with the stub, by name."""
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [sys.executable, "-m", "benchmarks.launch_path", "--here", "--json", *names],
            env=os.environ | stub.settings(stub.build(Path(folder))),
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    found: dict[str, dict[str, float]] = json.loads(answer.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *WORKS], help="all by default")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help="the stub is this process's OpenCL")
    options = parser.parse_args()
    names = options.names or list(WORKS)
    if options.here:
        calls = stub.Calls()
        results = {name: measure(WORKS[name], calls) for name in names}
    else:
        results = measure_apart(names)
    if options.json:
        print(json.dumps(results))
        return
    rows = [("", "ocl", "CPU", "ratio", "arguments set", "launches", "waits")]
    for name, found in results.items():
        set_arguments, launches, waits = (found[call] for call in COUNTED)
        rows.append((
            name, f"{found['ocl']:.2f} us", f"{found['cpu']:.2f} us",
            f"{found['ocl'] / found['cpu']:.2f}", f"{set_arguments:.1f}", f"{launches:.1f}",
            f"{waits:.3f}",
        ))  # fmt: skip
    print_columns(rows, right=(1, 2, 3, 4, 5, 6))


if __name__ == "__main__":
    main()
