"""Finds the table by which `auto` decides on a device (`way_savings.py`).

The times of single calls say what they save; whole programs have the last word on what Python does
beside the device, since that does not show in calls.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from torch_outboard import _C
from torch_outboard.dispatch import ways
from torch_outboard.tuning import representative_programs, tuning_file, way_savings, way_times
from torch_outboard.tuning.representative_calls import Call, Run, families
from torch_outboard.tuning.tuning_file import Tuning
from torch_outboard.tuning.tuning_journal import Remember, measure_anew
from torch_outboard.tuning.way_savings import Beside, Times
from torch_outboard.tuning.way_times import Compare, Progress

SIZES = (1 << 10, 1 << 15, 1 << 17, 1 << 20)  # elements
# What is tried. Where two are about equally good, the one before counts: other programs than these
# may be better on the other side.
BESIDE: tuple[Beside, ...] = ("typical", 60.0, 30.0, 120.0, 0.0, "device", "host")
# Seconds that one choice takes per round and program, after as many in which it settles.
PROGRAM_SECONDS = 0.1
PROGRAM_ROUNDS = 5
# What a choice has to be better by to count as better than one before it.
MARGIN = 0.95


def compare_programs(
    run: Run, take: Callable[[str], None], names: Sequence[str], synchronize: Callable[[], None]
) -> dict[str, float]:
    """Seconds of a program by each choice, the least of rounds in turn, each after it settled."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        take(name)
        run()  # compiles
    for _ in range(PROGRAM_ROUNDS):
        for name in names:
            take(name)
            end = time.perf_counter() + PROGRAM_SECONDS
            repeats = 0
            while time.perf_counter() < end or repeats < 2:
                way_times.seconds(run, 1, synchronize)
                repeats += 1
            times[name].append(way_times.seconds(run, repeats, synchronize))
    return {name: min(times[name]) for name in names}


def costs(by_program: Iterable[Mapping[Beside, float]]) -> dict[Beside, float]:
    """For each choice the largest ratio, over programs, of its time to the better forced way's."""
    found: dict[Beside, float] = {}
    for times in by_program:
        best = min(times["device"], times["host"])
        for choice, seconds in times.items():
            found[choice] = max(found.get(choice, 0.0), seconds / best)
    return found


def cheapest(by_choice: Mapping[Beside, float]) -> Beside:
    """The choice with the least cost; an earlier one if a later one is hardly better."""
    best, *others = by_choice
    for choice in others:
        if by_choice[choice] < MARGIN * by_choice[best]:
            best = choice
    return best


def judge(
    times: Times,
    device: torch.device,
    compare: Compare,
    say: Progress,
    programs: Mapping[str, Callable[[torch.device], Run]],
    remember: Remember = measure_anew,
) -> tuple[Beside, dict[Beside, float]]:
    """What Python does beside the device, as programs show it, and the cost of each choice."""
    tables = {str(beside): way_savings.table(times, beside) for beside in BESIDE}

    def take(choice: str) -> None:
        forced = choice in ("device", "host")
        ways.set_way(choice if forced else "auto", device)
        if not forced:
            _C.set_way_savings(device.index, tables[choice])

    def measure(prepare: Callable[[torch.device], Run]) -> list[float]:
        synchronize = torch.get_device_module(device).synchronize
        found = compare(prepare(device), take, list(tables), synchronize)
        return [found[choice] for choice in tables]

    before = _C.way_savings(device.index)
    by_program = []
    try:
        with ways.way("auto", device):
            for name, prepare in programs.items():
                say(name)
                seconds = remember(f"program {name}", functools.partial(measure, prepare))
                by_program.append(dict(zip(BESIDE, seconds, strict=True)))
    finally:
        _C.set_way_savings(device.index, before or None)
    by_choice = costs(by_program)
    return cheapest(by_choice), by_choice


def tune(
    device: torch.device,
    only: Iterable[str] = (),
    sizes: Sequence[int] = SIZES,
    compare: Compare = way_times.compare,
    compare_programs: Compare = compare_programs,
    say: Progress = lambda _: None,
    calls: Mapping[str, Iterable[Call]] | None = None,
    programs: Mapping[str, Callable[[torch.device], Run]] = representative_programs.PROGRAMS,
    remember: Remember = measure_anew,
) -> Tuning:
    """Measures a device and returns what was found; nothing is written or changed.

    Args:
        device: with its index. Host and device have to share memory: where they do not, the host
            way copies every argument, and there is nothing to compare.
        only: families; all by default. Programs then judge them with the typical times of others.
        sizes: numbers of elements, ascending.
        compare: what times a call by both ways.
        compare_programs: what times a program by several choices.
        say: is told what is measured next.
        calls: by family; those of `representative_calls.py` by default.
        programs: by name; they judge.
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
    only = set(only)
    if unknown := only - set(calls):
        raise ValueError(
            f"no family {', '.join(sorted(unknown))}; there are {', '.join(sorted(calls))}"
        )
    chosen = {family: its for family, its in calls.items() if not only or family in only}
    tuning = tuning_file.empty(index)
    tuning.times = way_times.measure(chosen, device, sizes, compare, say, remember)
    if tuning.times:
        times = way_savings.TYPICAL | tuning.times
        tuning.beside, by_choice = judge(times, device, compare_programs, say, programs, remember)
        tuning.costs = {str(choice): round(cost, 3) for choice, cost in by_choice.items()}
    return tuning
