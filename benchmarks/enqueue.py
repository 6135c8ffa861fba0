"""Time to enqueue a small operator on a device, without waiting for it, and with its completion.

    python -m benchmarks.enqueue [--device ocl] [--wait] [--json]

The best of several runs of `CALLS` calls each. The device works during the calls, or with `--wait`
`synchronize` follows each call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from torch_outboard import placement
from torch_outboard.columns import print_columns

CALLS = 300
RUNS = 15
LIMIT = 10.0  # microseconds


def calls(device: str) -> dict[str, Callable[[], object]]:
    x, y = torch.randn(64, device=device), torch.randn(64, device=device)
    places = torch.randint(0, 64, (64,), device=device)
    out = torch.empty_like(x)
    return {
        "x + y": lambda: x + y,
        "mul into out": lambda: torch.mul(x, y, out=out),
        "x.sum()": lambda: x.sum(),
        "gather": lambda: torch.gather(x, 0, places),
    }


def measure(device: str, wait: bool = False) -> dict[str, float]:
    """Microseconds per call, by name, with or without a wait for its completion."""
    synchronize = torch.get_device_module(device).synchronize
    results = {}
    with placement.use("device"):
        for name, call in calls(device).items():
            call()
            best = float("inf")
            for _ in range(RUNS):
                synchronize()
                start = time.perf_counter()
                if wait:
                    for _ in range(CALLS):
                        call()
                        synchronize()
                else:
                    for _ in range(CALLS):
                        call()
                best = min(best, (time.perf_counter() - start) / CALLS)
            synchronize()
            results[name] = best * 1e6
    return results


def measure_apart(driver: str, wait: bool = False) -> dict[str, float]:
    """The same on the first device of a driver, in a separate process.

    Raises:
        RuntimeError: where that fails, with the end of what it wrote.
    """
    command = [sys.executable, "-m", "benchmarks.enqueue", "--device", driver, "--json"]
    surroundings = {**os.environ, "OUTBOARD_DRIVER": driver, "OUTBOARD_PLACEMENT": "device"}
    answer = subprocess.run(
        [*command, *(["--wait"] if wait else [])],
        capture_output=True, text=True, check=False, env=surroundings,
    )  # fmt: skip
    if answer.returncode != 0:
        raise RuntimeError(f"benchmarks.enqueue failed: {answer.stderr[-500:]}")
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--wait", action="store_true", help="for the completion of each call")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = measure(options.device, options.wait)
    if options.json:
        print(json.dumps(results))
        return
    rows = [(name, f"{microseconds:.2f} us") for name, microseconds in results.items()]
    print_columns(rows, right=(1,))


if __name__ == "__main__":
    main()
