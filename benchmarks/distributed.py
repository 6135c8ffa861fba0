"""Communication of a device between processes, against Gloo on CPU tensors.

    python -m benchmarks.distributed [--rounds 11] [--ranks 2] [--part all_reduce|ddp|overlap]
        [--save NAME]
    python -m benchmarks.distributed --costs

Ranks are processes of one thread each. In each of them the device and CPU take turns, round by
round; the median of the rounds' ratios is reported with its interval. On separate memory the
reference is a copy to pinned memory, Gloo, and a copy back, one after another.

The hidden part of all_reduce is the time in which the backward pass computes, in profiles of steps
of DistributedDataParallel (benchmarks/overlap.py). The result is the visible part on the device
over that on CPU in the same process.

With --costs: the model of docs/performance.md for each collective, measured over a network
with delay and loss (benchmarks.network), as root.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import distributed_costs
from benchmarks.measurement import Measurement, table
from benchmarks.paired import RESULTS, environment, median_interval

# Name, environment, and the reference of all_reduce.
CONFIGURATIONS: dict[str, tuple[dict[str, str], str]] = {
    "shared, Gloo": ({"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_COMMUNICATION": "gloo"}, "cpu"),
    "shared, driver": (
        {"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_COMMUNICATION": "driver"},
        "cpu",
    ),
    "separate, Gloo": (
        {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_COMMUNICATION": "gloo"},
        "copies",
    ),
    "separate, driver": (
        {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_COMMUNICATION": "driver"},
        "copies",
    ),
}
# Maximum ratios to the reference, by its name and by size.
TARGETS = {
    "cpu": {"4 B": 1.5, "1 MiB": 1.1, "64 MiB": 1.05},
    "copies": {"4 B": 1.5, "1 MiB": 1.1, "64 MiB": 0.8},
}
STEP_TARGET = 1.05
# Maximum visible share of communication on separate memory; on shared memory CPU's share.
VISIBLE_TARGET = 0.4
# A profile is of several steps, so fewer rounds are enough.
OVERLAP_ROUNDS = 5


def run_ranks(work: str, settings: dict[str, str], ranks: int, rounds: int) -> list[dict[str, Any]]:
    """The lines that rank 0 printed. Raises RuntimeError if a rank fails."""
    variables = os.environ | {"OUTBOARD_DRIVER": "host", "OMP_NUM_THREADS": "1"} | settings
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [
                    *(sys.executable, "-W", "ignore", "-m", "benchmarks.distributed_ranks"),
                    *(str(rank), str(ranks), f"{folder}/store", work, str(rounds)),
                ],
                env=variables,
                cwd=Path(__file__).parents[1],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"{work} failed with {settings}: see above")
    return [json.loads(line) for line in outputs[0].splitlines()]


def ratio(times: dict[str, list[float]], side: str, reference: str) -> tuple[float, float, float]:
    pairs = zip(times[side], times[reference], strict=True)
    return median_interval([a / b for a, b in pairs])


def all_reduce(rounds: int, ranks: int) -> Iterator[Measurement]:
    for name, (settings, reference) in CONFIGURATIONS.items():
        for line in run_ranks("all_reduce", settings, ranks, rounds):
            size = line["name"]
            unit = "x Gloo on CPU" if reference == "cpu" else "x copy + Gloo + copy"
            target = TARGETS[reference][size]
            median, low, high = ratio(line["times"], "device", reference)
            yield Measurement(f"all_reduce {size}, {name}", target, median, low, high, unit)


def ddp(rounds: int, ranks: int) -> Iterator[Measurement]:
    for name, (settings, reference) in CONFIGURATIONS.items():
        if reference != "cpu":
            continue
        for line in run_ranks("ddp", settings, ranks, rounds):
            title = f"step of DistributedDataParallel, {line['name']}, {name}"
            median, low, high = ratio(line["times"], "device", "cpu")
            yield Measurement(title, STEP_TARGET, median, low, high, "x DDP on CPU")


def overlap(rounds: int, ranks: int) -> Iterator[Measurement]:
    for name, (settings, reference) in CONFIGURATIONS.items():
        visible: dict[str, list[float]] = {"device": [], "cpu": []}
        for line in run_ranks("overlap", settings, ranks, min(rounds, OVERLAP_ROUNDS)):
            visible[line["side"]].append(1 - line["hidden"])
        on_cpu = median_interval(visible["cpu"])[0]
        median, low, high = median_interval(visible["device"])
        target = on_cpu if reference == "cpu" else VISIBLE_TARGET
        title = f"all_reduce not hidden behind backward, ResNet-18, {name}"
        unit = f"(CPU: {on_cpu:.3g})"
        yield Measurement(title, round(target, 3), median, low, high, unit)


PARTS = {"all_reduce": all_reduce, "ddp": ddp, "overlap": overlap}


def measurements(rounds: int, ranks: int = 2) -> Iterator[Measurement]:
    for part in PARTS.values():
        yield from part(rounds, ranks)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument("--costs", action="store_true", help="the cost model and its measures")
    parser.add_argument("--save", metavar="NAME", help="also write to results/distributed-NAME.md")
    options = parser.parse_args()
    if options.costs:
        distributed_costs.report()
        return
    found = []
    for name in options.part or PARTS:
        for measurement in PARTS[name](options.rounds, options.ranks):
            print(f"{measurement.name}: {measurement.value:.3g}", file=sys.stderr, flush=True)
            found.append(measurement)
    text = table(found, environment() | {"ranks": options.ranks, "rounds": options.rounds})
    print(text)
    if options.save:
        (RESULTS / f"distributed-{options.save}.md").write_text(text)


if __name__ == "__main__":
    main()
