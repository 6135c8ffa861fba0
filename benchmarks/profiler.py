"""The cost of `torch.profiler` for a training step on a device, and the share of time it explains.

python -m benchmarks.profiler [--device ocl] [--rounds 15] [--steps 3] [--kernels-only] [--image 64]
python -m benchmarks.profiler --summary   # of `python -m torch_outboard trace` instead

A round takes the same steps of ResNet-18 without and with a profile, in turns; the result is the
median of the rounds' ratios with its interval. The time is that of the steps, without the start and
the end of the profile. Device time is the union of the trace's kernels, copies and fills on the
device's streams, over the time of the profiled steps. The placement is `device`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("OUTBOARD_PLACEMENT", "device")

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.paired import median_interval
from benchmarks.training_steps import ResNet18, training
from torch_outboard.dispatch import fallback

WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def seconds(step: Callable[[], object], steps: int, synchronize: Callable[[], object]) -> float:
    synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize()
    return time.perf_counter() - begin


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length of the union of the spans, in their unit."""
    total, reached = 0, -1
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def summary_cost(step: Callable[[], object], synchronize: Callable[[], object], rounds: int,
                 steps: int) -> list[float]:  # fmt: skip
    """Time of steps with the report of `trace` over that without it, by round."""
    ratios = []
    for turn in range(rounds):
        times = {}
        for reported in (False, True) if turn % 2 else (True, False):
            with fallback.report(call_sites="waits") if reported else nullcontext():
                times[reported] = seconds(step, steps, synchronize)
        ratios.append(times[True] / times[False])
    return ratios


def device_seconds(profiler: profile) -> float:
    events: list[Any] = profiler.profiler.kineto_results.events()  # type: ignore[union-attr]
    spans = [
        (event.start_ns(), event.end_ns()) for event in events if event.activity_type() in WORK
    ]
    return covered(spans) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=os.environ.get("OUTBOARD_DRIVER", "ocl"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--image", type=int, default=64, help="pixels of a side")
    parser.add_argument("--kernels-only", action="store_true", help="no activities of the CPU")
    parser.add_argument("--summary", action="store_true", help="the cost of `trace`, not a profile")
    options = parser.parse_args()
    os.environ.setdefault("OUTBOARD_DRIVER", options.device)

    image = (8, 3, options.image, options.image)
    step = training(ResNet18, lambda: torch.randn(image), 1000)(options.device)
    synchronize = torch.get_device_module(options.device).synchronize
    if options.summary:
        seconds(step, 2, synchronize)
        ratios = summary_cost(step, synchronize, options.rounds, options.steps)
        median, low, high = median_interval(ratios)
        print(f"ResNet-18, {image}, {torch.get_num_threads()} threads, device '{options.device}'")
        print(f"with / without a summary {median:8.3f}    [{low:.3f}, {high:.3f}]")
        return
    activities = [ProfilerActivity.PrivateUse1]
    if not options.kernels_only:
        activities.append(ProfilerActivity.CPU)
    for context in (nullcontext(), profile(activities=activities)):
        with context:
            seconds(step, 2, synchronize)

    ratios, plain, shares, ends = [], [], [], []
    for turn in range(options.rounds):
        times = {}
        for profiled in (False, True) if turn % 2 else (True, False):
            if not profiled:
                times[False] = seconds(step, options.steps, synchronize)
                continue
            profiler = profile(activities=activities)
            profiler.start()
            times[True] = seconds(step, options.steps, synchronize)
            begin = time.perf_counter()
            profiler.stop()
            ends.append(time.perf_counter() - begin)
            shares.append(device_seconds(profiler) / times[True])
        ratios.append(times[True] / times[False])
        plain.append(times[False] / options.steps)

    median, low, high = median_interval(ratios)
    print(f"ResNet-18, {image}, {torch.get_num_threads()} threads, device '{options.device}'")
    print(f"step without a profile   {1e3 * statistics.median(plain):8.1f} ms")
    print(f"with / without a profile {median:8.3f}    [{low:.3f}, {high:.3f}]")
    print(f"end of the profile       {1e3 * statistics.median(ends):8.1f} ms")
    median, low, high = median_interval(shares)
    print(f"device time / step time  {median:8.3f}    [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
