"""Time and calls of OpenCL that an operator costs the host, with a GPU that does nothing.

    python -m benchmarks.launch_path [--json] [names...]

The driver `ocl` gets an OpenCL whose calls return at once (stub_opencl.cpp), so that what remains
is PyTorch, the kit and the driver, without OpenCL's own time. Beside it stands the same call on CPU
tensors, in turns: with 16 elements that is PyTorch's own cost. The best of several runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks.launch_path import stub
from torch_outboard.columns import print_columns

RUNS = 25
RUN_SECONDS = 0.01
COUNTED = ("clSetKernelArg", "clEnqueueNDRangeKernel", "clWaitForEvents")

Call = Callable[[], object]


def chain(device: str) -> Call:
    x, values = torch.ones(16, device=device), [torch.ones(16, device=device)]

    def call() -> None:
        values[0] = values[0] + x

    return call


def on_vectors(function: Callable[[torch.Tensor, torch.Tensor], object]) -> Callable[[str], Call]:
    def prepare(device: str) -> Call:
        x, y = torch.ones(16, device=device), torch.ones(16, device=device)
        return lambda: function(x, y)

    return prepare


def into_output(device: str) -> Call:
    x, y, out = (torch.ones(16, device=device) for _ in range(3))
    return lambda: torch.mul(x, y, out=out)


def product(device: str) -> Call:
    bias, x, weight = (torch.ones(shape, device=device) for shape in ((8,), (4, 8), (8, 8)))
    return lambda: torch.addmm(bias, x, weight)


def training_step(dtype: torch.dtype) -> Callable[[str], Call]:
    """Of an MLP with AdamW; other dtypes than float32 by autocast."""

    def prepare(device: str) -> Call:
        sizes = (16, 32, 32, 8)
        layers: list[torch.nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
        net = torch.nn.Sequential(*layers[:-1]).to(device)
        x = torch.ones(4, sizes[0], device=device)
        y = torch.zeros(4, dtype=torch.int64, device=device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

        def step() -> None:
            with torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32):
                loss = functional.cross_entropy(net(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        return step

    return prepare


WORKS: dict[str, Callable[[str], Call]] = {
    "y = y + x": chain,
    "mul into out": into_output,
    "x.add_(y)": on_vectors(lambda x, y: x.add_(y)),
    "x + 1.0": on_vectors(lambda x, y: x + 1.0),
    "x.sum()": on_vectors(lambda x, y: x.sum()),
    "softmax": on_vectors(lambda x, y: torch.softmax(x, 0)),
    "addmm": product,
    "empty_like": on_vectors(lambda x, y: torch.empty_like(x)),
    "step of an MLP": training_step(torch.float32),
    "the same, autocast to bfloat16": training_step(torch.bfloat16),
}


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
            env=stub.environment(stub.build(Path(folder))),
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
