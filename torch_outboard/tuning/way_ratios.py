"""Times of calls by the device's kernels over those by the host's: what `way_tuning.py` decides by.

Each representative call (`representative_calls.py`) runs by both ways in turn, at several sizes.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from torch_outboard import _C
from torch_outboard.dispatch import fallback, ways
from torch_outboard.tuning.representative_calls import Call, Run
from torch_outboard.tuning.tuning_journal import Remember, measure_anew

# What a single call may lose where operators follow it and others to the device way.
CALL_LIMIT = 1.25
# A way that is not better by this much is not worth the question.
MARGIN = 0.9
# Ratios of calls that are not clearly better by one way, so that one measurement will not do.
UNCLEAR = (0.7, 1.4)
# How often these are measured at most; the median counts. Two that agree will do.
REPEATS = 3
# A call that would take longer than this, in seconds, is not made: what was better for the sizes
# before will be for this one.
LONGEST = 0.5
# Seconds that one side of a comparison takes in all, about, and rounds of at least one call.
BUDGET = 0.1
ROUNDS = (3, 7)
# Seconds after which threads of OpenMP, which spin when they have nothing to do, are asleep. While
# they spin, nobody else gets their processors.
SETTLE = 0.015

# Takes a function that does something by one of two ways, named "device" and "host"; returns the
# seconds of one execution by each.
Compare = Callable[[Run, Callable[[str], None], Callable[[], None]], tuple[float, float]]
Progress = Callable[[str], None]


def seconds(run: Run, repeats: int, synchronize: Callable[[], None], wake: bool = True) -> float:
    """How long `repeats` executions take once threads are at rest, and then awake.

    Args:
        run: does the work once.
        repeats: how often it is done.
        synchronize: waits for it.
        wake: whether it is done once before, which long work does not need.
    """
    synchronize()
    time.sleep(SETTLE)
    if wake:
        run()  # wakes threads
        synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    synchronize()
    return time.perf_counter() - start


def compare_ways(
    run: Run, take: Callable[[str], None], synchronize: Callable[[], None]
) -> tuple[float, float]:
    """Times `run` by both ways in turn and returns the least times for device and host, in seconds.

    The least, since whatever else runs on the machine only adds to a time.

    Args:
        run: does the work once, possibly asynchronously.
        take: chooses the way of the next calls, `"device"` or `"host"`.
        synchronize: waits for the work.
    """

    repeats, rounds, wake = {}, ROUNDS[1], True
    times: dict[str, list[float]] = {"device": [], "host": []}
    for way in ("device", "host"):
        take(way)
        run()  # compiles
        once = max(seconds(run, 1, synchronize), 1e-7)
        times[way].append(once)
        repeats[way] = max(1, math.ceil(BUDGET / ROUNDS[1] / once))
        rounds = min(rounds, max(ROUNDS[0], int(BUDGET / once)))
        wake = wake and once < BUDGET
    for number in range(rounds if wake else ROUNDS[0] - 1):
        for way in ("device", "host") if number % 2 else ("host", "device"):
            take(way)
            times[way].append(seconds(run, repeats[way], synchronize, wake) / repeats[way])
    return min(times["device"]), min(times["host"])


def runs_on_device(run: Run, call: Call) -> bool:
    """Whether a call launches the device kernel that it is about, once the way is the device's."""
    with fallback.report() as report:
        run()
    return any(row.way == "device" and row.op == call.overload for row in report.rows)


def call_times(run: Run, device: torch.device, compare: Compare) -> tuple[float, float]:
    """The ratio of a call, as `call_ratio` has it, and its seconds by the slower way."""
    slowest = 0.0

    def measure() -> float:
        nonlocal slowest
        synchronize = torch.get_device_module(device).synchronize
        on_device, on_host = compare(run, lambda way: ways.set_way(way, device), synchronize)
        slowest = max(slowest, on_device, on_host)
        return on_device / on_host

    with ways.way("device", device):
        found = [measure()]
        if UNCLEAR[0] < found[0] < UNCLEAR[1]:
            found.append(measure())
            if (found[0] <= MARGIN) != (found[1] <= MARGIN):
                found += [measure() for _ in range(REPEATS - 2)]
    return statistics.median(found), slowest


def call_ratio(run: Run, device: torch.device, compare: Compare) -> float:
    """Time of a call by the device's kernels over that by the host's; several times if unclear."""
    return call_times(run, device, compare)[0]


def expected_seconds(measured: Sequence[tuple[int, float]], elements: int) -> float:
    """How long a call of this size will take, from the last two sizes before; 0 if there are less.

    Args:
        measured: numbers of elements and seconds, in the order of the sizes.
        elements: the size.
    """
    if len(measured) < 2:
        return 0.0
    (fewer, less), (more, seconds_of_more) = measured[-2:]
    growth = math.log(seconds_of_more / less) / math.log(more / fewer)
    return seconds_of_more * math.pow(elements / more, max(growth, 0.0))


def measure_operators(
    calls: Iterable[Call],
    device: torch.device,
    sizes: Iterable[int],
    compare: Compare,
    say: Progress,
    remember: Remember = measure_anew,
) -> dict[str, dict[int, list[float]]]:
    """The ratios of calls by operator and number of elements, of those that run on the device."""
    found: dict[str, dict[int, list[float]]] = {}
    times: dict[int, list[tuple[int, float]]] = defaultdict(list)  # by number of the call
    calls = list(calls)
    for elements in sizes:
        for number, call in enumerate(calls):
            say(f"{call.overload} of {elements:,}")
            if expected_seconds(times[number], elements) > LONGEST:
                continue
            name = f"{call.overload} {number} {elements}"
            measure = functools.partial(_measure, call, elements, device, compare)
            measured = remember(name, measure)
            if measured is None:
                continue
            ratio, slowest = measured
            times[number].append((elements, slowest))
            by_size = found.setdefault(_C.operator_of(call.overload), {})
            by_size.setdefault(elements, []).append(ratio)
    return found


def _measure(
    call: Call, elements: int, device: torch.device, compare: Compare
) -> tuple[float, float] | None:
    """Ratio and seconds of a call; None if it does not run on the device."""
    with ways.way("device", device):
        try:
            run = call.prepare(device, elements)
            if not runs_on_device(run, call):
                return None
            return call_times(run, device, compare)
        except NotImplementedError:
            return None  # float64, say, or no host kernel either


def together(ratios: Sequence[float]) -> float:
    """One ratio for several calls of a size: their geometric mean, or that of a much worse one.

    The number of elements says little about the work of a convolution, say. So what takes the
    device way may not lose much by any of the calls: if one does, its ratio counts.
    """
    worst = max(ratios)
    return worst if worst > CALL_LIMIT else statistics.geometric_mean(ratios)


def by_name(
    family: str, operators: Mapping[str, Mapping[int, Sequence[float]]]
) -> dict[str, dict[int, float]]:
    """One ratio by size for a family and for each operator in it; nothing if nothing was measured.

    Args:
        family: its name.
        operators: what `measure_operators` found.
    """
    whole: dict[int, list[float]] = defaultdict(list)
    found = {}
    for name, ratios in operators.items():
        found[name] = {elements: together(of_calls) for elements, of_calls in ratios.items()}
        for elements, of_calls in ratios.items():
            whole[elements] += of_calls
    ratios_of_family = {elements: together(of_calls) for elements, of_calls in whole.items()}
    return {family: ratios_of_family, **found} if whole else {}
