"""What way `auto` costs against the better of the forced ways, per family of kernels and per model.

    python -m benchmarks.ways [--rounds 15] [--elements 1024] [--family reduction] [--save]

Regret is the time by `auto` over that by the better of `device` and `host`, less one. All three run
in one process, in turn, on the same tensors, `auto` as `python -m torch_outboard tune` left it. A
family's regret is the geometric mean over its representative calls
(`torch_outboard/tuning/representative_calls.py`), at each number of elements. What exceeds the
target is measured again, up to three times in all, and every round counts: in microseconds a
single run of rounds depends on where threads happened to wake.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import torch

import torch_outboard
from benchmarks import training_steps
from benchmarks.paired import RESULTS, environment, median_interval
from torch_outboard import fallback, ways
from torch_outboard.tuning import way_ratios
from torch_outboard.tuning.representative_calls import families

MODELS = ("MLP", "small GPT", "ResNet-18, 8 x 3 x 64 x 64")
SIZES = (1 << 10, 1 << 17, 1 << 20)
# Seconds that one way of one round should take.
ROUND_SECONDS = 0.02
TARGET = 0.10
ATTEMPTS = 3


@dataclass(frozen=True)
class Regret:
    """Seconds of one execution by each way (geometric means for a family), and the regret."""

    name: str
    device: float
    host: float
    auto: float
    regret: float  # median over rounds
    low: float  # 95 % interval
    high: float


def sample(runs: list[Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Logarithms of the seconds of pieces of work by each way in each round, means over the work.

    Each piece runs by all three ways in turn.
    """
    synchronize = torch.get_device_module(torch_outboard.device_name()).synchronize

    def seconds(run: Callable[[], object], repeats: int) -> float:
        return way_ratios.seconds(run, repeats, synchronize) / repeats

    logarithms: dict[str, list[list[float]]] = {way: [] for way in ways.WAYS}
    for run in runs:
        repeats = {}
        for way in ways.WAYS:
            with ways.way(way):
                seconds(run, 2)  # compiles
                repeats[way] = max(1, int(ROUND_SECONDS / seconds(run, 1)))
        times: dict[str, list[float]] = {way: [] for way in ways.WAYS}
        for number in range(rounds):
            order = ways.WAYS[number % 3 :] + ways.WAYS[: number % 3]
            for way in order:
                with ways.way(way):
                    times[way].append(math.log(seconds(run, repeats[way])))
        for way in ways.WAYS:
            logarithms[way].append(times[way])
    return {
        way: [statistics.fmean(column) for column in zip(*rows, strict=True)]
        for way, rows in logarithms.items()
    }


def measure(name: str, runs: list[Callable[[], object]], rounds: int) -> Regret:
    """Measures pieces of work that count as one; again if the regret exceeds the target."""
    by_round: dict[str, list[float]] = {way: [] for way in ways.WAYS}
    for _ in range(ATTEMPTS):
        for way, logarithms in sample(runs, rounds).items():
            by_round[way] += logarithms
        medians = {way: math.exp(statistics.median(values)) for way, values in by_round.items()}
        better = min(("device", "host"), key=medians.__getitem__)
        regrets = [
            math.expm1(auto - forced)
            for auto, forced in zip(by_round["auto"], by_round[better], strict=True)
        ]
        regret, low, high = median_interval(regrets)
        if regret <= TARGET:
            break
    return Regret(name, medians["device"], medians["host"], medians["auto"], regret, low, high)


def family_regrets(names: Iterable[str], sizes: Iterable[int], rounds: int) -> Iterable[Regret]:
    device = torch.device(torch_outboard.device_name(), 0)
    for family, calls in families().items():
        if names and family not in names:
            continue
        for elements in sizes:
            runs = []
            for call in calls:
                with ways.way("device"):
                    run = call.prepare(device, elements)
                    if way_ratios.runs_on_device(run, call):
                        runs.append(run)
            if runs:
                yield measure(f"{family}, {elements:,} elements", runs, rounds)


def model_regrets(rounds: int) -> Iterable[Regret]:
    for name in MODELS:
        step = training_steps.WORKS[name](torch_outboard.device_name())
        yield measure(name, [step], rounds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--elements", type=int, action="append", help="default: several")
    parser.add_argument("--family", action="append", default=[], help="default: all, and models")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/ways.*")
    options = parser.parse_args()
    device = torch.device(torch_outboard.device_name(), 0)
    fallback.set_policy(copied="allow")
    print(f"way auto on {device}: {ways.ranges(device) or 'the default, nothing measured'}")
    lines = ["| work | device | host | auto | regret of auto | 95 % interval |"]
    lines.append("|---|---|---|---|---|---|")
    print("\n".join(lines), flush=True)
    results = []
    sources = [family_regrets(options.family, options.elements or SIZES, options.rounds)]
    if not options.family:
        sources.append(model_regrets(options.rounds))
    for source in sources:
        for r in source:
            times = " | ".join(f"{seconds * 1e3:.3g} ms" for seconds in (r.device, r.host, r.auto))
            interval = f"{r.low:+.1%} to {r.high:+.1%}"
            lines.append(f"| {r.name} | {times} | {r.regret:+.1%} | {interval} |")
            print(lines[-1], flush=True)
            results.append(r)
    if options.save:
        settings = environment() | {
            "device": torch.get_device_module(device).get_device_properties(device).name,
            "ranges": ways.ranges(device),
        }
        content = {"environment": settings, "results": [asdict(r) for r in results]}
        (RESULTS / "ways.json").write_text(json.dumps(content, indent=2) + "\n")
        head = ["# Ways", "", *(f"- {key}: {value}" for key, value in settings.items()), ""]
        (RESULTS / "ways.md").write_text("\n".join(head + lines) + "\n")
        print(f"written to {RESULTS / 'ways.md'} and .json")
    worst = max(results, key=lambda r: r.regret)
    print(f"largest regret: {worst.regret:+.1%} ({worst.name}); target {TARGET:.0%} or less")
    return int(worst.regret > TARGET)


if __name__ == "__main__":
    sys.exit(main())
