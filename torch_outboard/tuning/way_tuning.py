"""Finds out which way is better on a device, for operators and for families of them.

An operator takes the device way around the sizes at which its representative calls were better by
it (`way_ratios.py`); the operators of a family that no call stands for take it where the family's
calls were better by it on average, and none much worse.
Where that opens the device way, calls of other sizes have to ask which way to take: if they do not
bear that, it is closed. Then small training steps (`representative_steps.py`) have the last word on
everything of which they give calls to the device.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import torch

from torch_outboard import _C
from torch_outboard.dispatch import fallback, ways
from torch_outboard.ops import tables
from torch_outboard.tuning import representative_steps, tuning_file
from torch_outboard.tuning.representative_calls import COPY, COPY_OVERLOAD, Call, Run, families
from torch_outboard.tuning.tuning_file import Range, Ranges, Tuning
from torch_outboard.tuning.tuning_journal import Remember, measure_anew
from torch_outboard.tuning.way_ratios import (
    MARGIN,
    REPEATS,
    Compare,
    Progress,
    by_name,
    compare_ways,
    measure_operators,
)

SIZES = tuple(1 << bits for bits in (10, 12, 15, 17, 20, 22))  # elements
# What a training step may take of its time by the host's kernels: chance alone is some per cent.
TRAINING_LIMIT = 1.02
# The same for a call that stays on the host, and now has to ask.
QUESTION_LIMIT = 1.05
# How often in a row a limit has to be exceeded: what else runs on the machine looks like a loss.
CONFIRMATIONS = 3


def better_ranges(ratios: Mapping[int, float], margin: float = MARGIN) -> list[Range]:
    """For how many elements the device way is better.

    Args:
        ratios: by number of elements, the time of the device way over that of the host way.
        margin: what a ratio has to be at most to count as better.

    Returns:
        Ranges that meet half way (of the logarithm) between sizes of which one was better and one
        was not; what lies outside of all sizes goes with the nearest.
    """
    found: list[Range] = []
    previous = None  # the size before, and whether the device was better there
    for elements in sorted(ratios):
        better = ratios[elements] <= margin
        if previous is None:
            border = 0
        elif better != previous[1]:
            border = math.isqrt(previous[0] * elements)
        if better and (previous is None or not previous[1]):
            found.append((border, None))
        elif not better and previous is not None and previous[1]:
            found[-1] = (found[-1][0], border)
        previous = elements, better
    return found


def auto_ratio(ranges: Ranges, run: Run, device: torch.device, compare: Compare) -> float:
    """Time of a piece of work by `auto` with these ranges over that by the host's kernels alone."""
    before = _C.way_ranges(device.index)
    host: Ranges = {name: [] for name in ranges}

    def take(way: str) -> None:
        _C.set_way_ranges(device.index, ranges if way == "device" else host)

    try:
        with ways.way("auto", device):
            synchronize = torch.get_device_module(device).synchronize
            pairs = [compare(run, take, synchronize) for _ in range(REPEATS)]
    finally:
        _C.set_way_ranges(device.index, before)
    return statistics.median(on_device / on_host for on_device, on_host in pairs)


def is_slower(
    ranges: Ranges, run: Run, device: torch.device, compare: Compare, limit: float
) -> bool:
    """Whether `auto` with these ranges exceeds `limit` times the host's time, repeatedly."""
    return all(auto_ratio(ranges, run, device, compare) > limit for _ in range(CONFIRMATIONS))


def used_on_device(ranges: Ranges, run: Run, device: torch.device) -> set[str]:
    """Operators and families of which a piece of work has calls that ranges give to the device."""
    before = _C.way_ranges(device.index)
    try:
        _C.set_way_ranges(device.index, ranges)
        with ways.way("auto", device), fallback.report() as report:
            run()
    finally:
        _C.set_way_ranges(device.index, before)
    known = {**tables.families(), COPY_OVERLOAD: COPY}
    used = set()
    for row in report.rows:
        if row.way == "device" and row.op in known:
            operator = _C.operator_of(row.op)
            used.add(operator if operator in ranges else known[row.op])
    return used


def host_calls_keep_up(
    name: str,
    ranges: list[Range],
    calls: Iterable[Call],
    device: torch.device,
    sizes: Iterable[int],
    compare: Compare,
    say: Progress,
    remember: Remember = measure_anew,
) -> bool:
    """Whether the calls that stay on the host bear the question which way to take.

    The question takes as long for any number of elements, so those with the fewest are asked.
    """
    outside = [
        elements
        for elements in sizes
        if not any(a <= elements and (b is None or elements < b) for a, b in ranges)
    ]
    for elements in sorted(outside)[:1]:
        for number, call in enumerate(calls):
            say(f"{call.overload} of {elements:,} on the host")

            def ask(call: Call = call, elements: int = elements) -> bool:
                run = call.prepare(device, elements)
                return is_slower({name: ranges}, run, device, compare, QUESTION_LIMIT)

            if remember(f"question {name} {number} {elements} {ranges}", ask):
                return False
    return True


def forced_ratio(device: torch.device, compare: Compare) -> float:
    """Time of a training step by the device's kernels alone over that by `auto` as it is now."""
    step = representative_steps.perceptron(device)

    def take(way: str) -> None:
        ways.set_way("device" if way == "device" else "auto", device)

    before = ways.get_way(device)
    try:
        synchronize = torch.get_device_module(device).synchronize
        pairs = [compare(step, take, synchronize) for _ in range(REPEATS)]
    finally:
        ways.set_way(before, device)
    return statistics.median(forced / by_auto for forced, by_auto in pairs)


def narrower(found: list[Range], sizes: Iterable[int]) -> Iterable[list[Range]]:
    """The ranges themselves, then what is left of them from half way between two sizes on."""
    yield found
    last = found
    for before, size in pairwise(sorted(sizes)):
        border = math.isqrt(before * size)
        rest = [(max(first, border), end) for first, end in found if end is None or end > border]
        if rest and rest != last:
            yield rest
            last = rest


def worth_it(
    ranges: Ranges,
    device: torch.device,
    sizes: Iterable[int],
    compare: Compare,
    say: Progress,
    steps: Mapping[str, Callable[[torch.device], Run]],
    remember: Remember = measure_anew,
) -> Ranges:
    """As much of the ranges as slows no training step down.

    The steps work on small tensors, each of which may have to wait for the one before on the other
    way. So what fails from its first size on may pass from a larger one on. Operators and families
    of which the steps have no calls in these ranges stay as they are.
    """

    runs = {name: prepare(device) for name, prepare in steps.items()}

    def used(chosen: Ranges) -> dict[str, set[str]]:
        return {step: used_on_device(chosen, run, device) for step, run in runs.items()}

    def passes(chosen: Ranges, names_by_step: Mapping[str, set[str]]) -> bool:
        for step, names in names_by_step.items():
            if names:
                say(f"a {step} step, {', '.join(sorted(names))}")
                ask = functools.partial(
                    is_slower, chosen, runs[step], device, compare, TRAINING_LIMIT
                )
                if remember(f"{step} {sorted(chosen.items())}", ask):
                    return False
        return True

    at_stake = used(ranges)
    judged = [name for name in ranges if any(name in names for names in at_stake.values())]
    if not judged or passes({name: ranges[name] for name in judged}, at_stake):
        return ranges
    chosen: Ranges = {name: [] if name in judged else ranges[name] for name in ranges}
    for name in judged:
        for candidate in narrower(ranges[name], sizes):
            tried = chosen | {name: candidate}
            names_by_step = used(tried)
            unused = not any(name in names for names in names_by_step.values())
            if unused or passes(tried, names_by_step):
                chosen[name] = candidate
                break
    return chosen


def tune(
    device: torch.device,
    only: Iterable[str] = (),
    sizes: Iterable[int] = SIZES,
    compare: Compare = compare_ways,
    say: Progress = lambda _: None,
    calls: Mapping[str, Iterable[Call]] | None = None,
    steps: Mapping[str, Callable[[torch.device], Run]] = representative_steps.STEPS,
    remember: Remember = measure_anew,
) -> Tuning:
    """Measures a device and returns what was found; nothing is written or changed.

    Args:
        device: with its index. Host and device have to share memory: where they do not, the host
            way copies every argument, and there is nothing to compare.
        only: families; all by default.
        sizes: numbers of elements.
        compare: what times a piece of work by both ways.
        say: is told what is measured next.
        calls: by family; those of `representative_calls.py` by default.
        steps: training steps that must not become slower, by name.
        remember: gives what a run before has measured, or measures and keeps it.

    Raises:
        ValueError: if the device runs no code, shares no memory with the host, or a family does not
            exist.
    """
    index = device.index
    if not _C.runs_code(index):
        raise ValueError(f"{device} runs no code, so it has one way only and nothing to tune")
    if not _C.shares_host_memory(index):
        raise ValueError(
            f"{device} shares no memory with the host, so its own kernels are always taken and "
            "there is nothing to tune"
        )
    calls = families() if calls is None else calls
    if unknown := set(only) - set(calls):
        raise ValueError(
            f"no family {', '.join(sorted(unknown))}; there are {', '.join(sorted(calls))}"
        )
    sizes = sorted(sizes)
    ratios: dict[str, dict[int, float]] = {}
    represented: dict[str, list[Call]] = {}
    for family, its_calls in calls.items():
        if only and family not in only:
            continue
        measured = measure_operators(its_calls, device, sizes, compare, say, remember)
        ratios |= by_name(family, measured)
        represented[family] = list(its_calls)
        for call in its_calls:
            represented.setdefault(_C.operator_of(call.overload), []).append(call)
    ranges = {name: better_ranges(found) for name, found in ratios.items()}
    for name in [name for name in ranges if ranges[name]]:
        if not host_calls_keep_up(
            name, ranges[name], represented[name], device, sizes, compare, say, remember
        ):
            ranges[name] = []
    ranges = worth_it(ranges, device, sizes, compare, say, steps, remember)
    tuning = tuning_file.empty(index)
    tuning.ranges = ranges
    tuning.ratios = {
        name: {str(elements): round(ratio, 3) for elements, ratio in found.items()}
        for name, found in ratios.items()
    }
    return tuning
