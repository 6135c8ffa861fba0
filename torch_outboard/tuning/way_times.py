"""Times of calls (`representative_calls.py`) by the device's kernels and by the host's."""

from __future__ import annotations

import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from torch_outboard import _C
from torch_outboard.dispatch import fallback, ways
from torch_outboard.tuning.representative_calls import Call, Run
from torch_outboard.tuning.tuning_journal import Remember, measure_anew
from torch_outboard.tuning.way_savings import Times

# Seconds that one side takes in all, about, and rounds, of which the least counts.
BUDGET = 0.03
ROUNDS = 5
# After a call that took so many seconds, larger ones are not made: they follow from it.
LONGEST = 0.03

# Takes a function that does something, one that chooses by which of some ways, the names of these
# and a function that waits. Returns seconds of one execution by each.
Compare = Callable[
    [Run, Callable[[str], None], Sequence[str], Callable[[], None]], dict[str, float]
]
Progress = Callable[[str], None]


def seconds(run: Run, repeats: int, synchronize: Callable[[], None]) -> float:
    """How long one of `repeats` executions takes that follow each other, in seconds."""
    synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    synchronize()
    return (time.perf_counter() - start) / repeats


def compare(
    run: Run, take: Callable[[str], None], names: Sequence[str], synchronize: Callable[[], None]
) -> dict[str, float]:
    """Times `run` by ways in turn, the least of some rounds: what else runs only adds to a time."""
    repeats = {}
    for name in names:
        take(name)
        run()  # compiles
        repeats[name] = max(1, int(BUDGET / ROUNDS / max(seconds(run, 1, synchronize), 1e-7)))
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name in names:
            take(name)
            run()  # wakes threads
            times[name].append(seconds(run, repeats[name], synchronize))
    return {name: min(times[name]) for name in names}


def runs_on_device(run: Run, call: Call) -> bool:
    """Whether a call launches the device kernel that it is about, once the way is the device's."""
    with fallback.report() as report:
        run()
    return any(row.way == "device" and row.op == call.kernel for row in report.rows)


def measure(
    calls: Mapping[str, Iterable[Call]],
    device: torch.device,
    sizes: Sequence[int],
    compare: Compare,
    say: Progress,
    remember: Remember = measure_anew,
) -> Times:
    """Times of calls by operator and by family, medians of the calls that run on the device.

    Args:
        calls: by family.
        device: with its index.
        sizes: numbers of elements, ascending.
        compare: times a call by both ways.
        say: is told what is measured next.
        remember: gives what a run before has measured, or measures and keeps it.
    """
    found: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for family, of_family in calls.items():
        for number, call in enumerate(of_family):
            for elements in sizes:
                say(f"{call.overload} of {elements:,}")
                name = f"{call.overload} {number} {elements}"
                both = remember(name, functools.partial(_times, call, elements, device, compare))
                if both is None:
                    break
                for subject in (family, _C.operator_of(call.overload)):
                    found[subject][elements].append(both)
                if max(both) > LONGEST * 1e6:
                    break
    return {
        name: {elements: _middle(times) for elements, times in by_size.items()}
        for name, by_size in found.items()
    }


def _middle(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    device, host = (statistics.median(column) for column in zip(*times, strict=True))
    return round(device, 2), round(host, 2)


def _times(
    call: Call, elements: int, device: torch.device, compare: Compare
) -> tuple[float, float] | None:
    """Microseconds by device and host; None if the call does not run on the device."""
    with ways.way("device", device):
        try:
            run = call.prepare(device, elements)
            if not runs_on_device(run, call):
                return None
            synchronize = torch.get_device_module(device).synchronize
            found = compare(
                run, lambda way: ways.set_way(way, device), ("device", "host"), synchronize
            )
        except NotImplementedError:
            return None  # float64, say, or no host kernel either
    return found["device"] * 1e6, found["host"] * 1e6
