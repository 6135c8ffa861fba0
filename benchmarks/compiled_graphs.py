"""Times of compiled graphs that are captured and replayed against the same graphs launched anew.

    python -m benchmarks.compiled_graphs [--device ocl] [--rounds 21] [--save NAME]

The graph is a chain of 50 kernels of 1024 values each, since sums alternate between rows and
columns. For replays and for launches: microseconds per kernel until the call returns, and until the
device is done, in turns, and the ratio of the latter.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import torch_outboard
from benchmarks.paired import median_interval, save_values

KERNELS = 50
_CALLS = 20


def chain(x: torch.Tensor) -> torch.Tensor:
    """A chain of `KERNELS` kernels: no sum can be fused with the previous one."""
    for step in range(KERNELS):
        x = (x - x.sum(step % 2, keepdim=True) * 0.1).sin()
    return x


def seconds(function: Callable[[torch.Tensor], object], x: torch.Tensor) -> tuple[float, float]:
    """Seconds of a call until it returns, and until the device is done."""
    torch.accelerator.synchronize()
    start = time.perf_counter()
    for _ in range(_CALLS):
        function(x)
    returned = time.perf_counter()
    torch.accelerator.synchronize()
    return (returned - start) / _CALLS, (time.perf_counter() - start) / _CALLS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=torch_outboard.device_name())
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--save", default="", help="a name in benchmarks/results")
    options = parser.parse_args()
    x = torch.randn(32, 32, device=options.device)
    sides = {
        "replayed": torch.compile(lambda x: chain(x), mode="reduce-overhead"),
        "launched": torch.compile(lambda x: chain(x)),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    with torch.no_grad():
        for function in sides.values():
            for _ in range(3):
                function(x)
        for turn in range(options.rounds):
            for name in sorted(sides, reverse=turn % 2 == 1):
                times[name].append(seconds(sides[name], x))
    for name, measured in times.items():
        host, done = (
            statistics.median(time[i] for time in measured) / KERNELS * 1e6 for i in (0, 1)
        )
        print(f"{name:10} {host:6.2f} us a kernel for the host, {done:6.2f} us until it is done")
        if options.save:
            case = f"chain of {KERNELS}, {options.device}, {name}, us a kernel"
            save_values(options.save, case, {"host": host, "done": done})
    pairs = zip(times["replayed"], times["launched"], strict=True)
    ratio, low, high = median_interval([ours[1] / theirs[1] for ours, theirs in pairs])
    print(f"{'ratio':10} {ratio:6.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
