"""Which way a graph runs, where its device's memory is the host's: measured, on its own calls.

A graph starts with device kernels, and operators that these do not replace go whichever way `auto`
takes for them. When it has run for a while, its next calls go the other ways in turn: the same with
such operators on the device, Inductor's C++ code for the CPU, and operator by operator. The fastest
way has the rest; on a processor all graphs of a program go to one side (sides.py), but for those by
whose other side the program gains. Each call happens once, whichever way it goes, so what it
changes or returns is right at any time. What was chosen is kept on disk, and another process
compiles that alone.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.output_code import OutputCode

from torch_outboard import _C
from torch_outboard.inductor.ways.layouts import LaidOut, as_laid_out, layouts_of
from torch_outboard.inductor.ways.open_sizes import OpenSizes
from torch_outboard.inductor.ways.program_time import DeviceClock, ProgramTime
from torch_outboard.inductor.ways.remembered import remember
from torch_outboard.inductor.ways.sides import (
    DEVICE,
    HOST,
    MIXED,
    SHARE_TO_WAIT_FOR,
    Group,
    groups_of,
)
from torch_outboard.inductor.ways.work import Sample, mean_work, seconds_at
from torch_outboard.state import state

# Seconds of work by device kernels after which compiling another way may pay.
PATIENCE = 1.0
# Rounds of all ways, in each of which a way has a call that is timed after one that is not: more
# for graphs that take a few milliseconds, whose times differ most from call to call.
_ROUNDS, _ROUNDS_OF_SHORT = 3, 7
_SHORT = 0.01  # seconds
# And for graphs whose calls have other sizes each, as many times.
_TIMES_FOR_OPEN_SIZES = 2
# What a way takes of the usual one's time at most, to be taken instead.
_MARGIN = 0.95
# What of the time that it saves within the graph a program has to gain.
_GAIN = 0.5


class DeviceGraph(OutputCode):
    """A graph of kernels that calls other operators on the device, too."""

    def __init__(self, compiled: Any) -> None:
        self._boxed_call = True
        self.compiled = compiled

    def __call__(self, inputs: Any) -> Any:
        return _C.call_on_device(self.compiled, inputs)


class OnSide(OutputCode):
    """A graph on a side, to which the program's operators in eager mode go, too, from its calls on.

    Their time is in what the side was chosen by, and beside a graph on the other side their threads
    would have to wake.
    """

    def __init__(self, run: Any, device: int, side: str) -> None:
        self._boxed_call = True
        self.run = run
        self.device = device
        self.side = side

    def __call__(self, inputs: Any) -> Any:
        _C.put_program_on_side(self.device, self.side)
        return self.run(inputs)


def _with_program(run: Any, device: int, way: str) -> Any:
    """A way that was chosen, or is tried, for all that the program does."""
    return OnSide(run, device, way) if _is_cpu(device) and way in (HOST, DEVICE) else run


def _is_cpu(device: int) -> bool:
    return bool(_C.device_properties(device).kind == "cpu")


class MeasuredGraph(OutputCode):
    """A graph that tries ways on its first calls, and stays with the fastest.

    Args:
        key: what the choice is kept by.
        device: index of the device.
        ways: what compiles the graph; the first one is compiled at once.
        layouts: strides of the results; by default those of the first way.
        sizes: of a graph whose sizes are open; all of its ways lay results out alike.
    """

    def __init__(
        self,
        key: str,
        device: int,
        ways: dict[str, Callable[[], Any]],
        layouts: Sequence[Any] | None = None,
        sizes: OpenSizes | None = None,
    ) -> None:
        self._boxed_call = True
        self.key = key
        self.device = device
        self.clock = DeviceClock(device)
        self.makers = ways
        self.first = next(iter(ways))
        self.run: Any = None
        self.lock = threading.Lock()
        self.times: dict[str, list[Sample]] = {self.first: []}
        self.runs: dict[str, Any] = {}
        self.with_program: str | None = None  # the way that the program is with
        self.calls = 0
        self.open_sizes = sizes
        self.usual_work = 1.0
        self.least = 0.0  # seconds that a call of such work by the first way takes
        self.least_times: dict[str, float] = {}  # by each way
        self.turns: list[tuple[str, bool]] | None = None
        self.waited_for = False
        self.sides: dict[str, str] = {}  # the way that is fastest on each
        self.group: Group | None = None
        self.alone: tuple[str, str, float] | None = None  # the usual way, another, what to gain
        self.program: ProgramTime | None = None
        self.layouts = layouts
        self.runs[self.first] = self.run = ways[self.first]()

    def __call__(self, inputs: Any) -> Any:
        # Another thread's call, one that is recorded, or one that must give the same bits as the
        # others, is not for trying ways.
        if not self.makers:
            return self.run(inputs)
        module = torch.get_device_module(state.name)
        if (
            torch.are_deterministic_algorithms_enabled()
            or module.is_current_stream_capturing()
            or not self.lock.acquire(blocking=False)
        ):
            return self._like_first(self.run(inputs))
        try:
            work = self.open_sizes.work(inputs) if self.open_sizes is not None else 1.0
            way = self._next_way(work)
            if way is None:
                return self._like_first(self.run(inputs))
            start = self.clock.when_done()
            results = self.run(inputs)
            self.times[way].append((work, self.clock.when_done() - start))
            return self._like_first(results)
        finally:
            self.lock.release()

    def _next_way(self, work: float) -> str | None:
        """Goes on to another way when it is time; the way, if the call is to be timed by itself."""
        if self.alone is not None:
            self._compare(*self.alone, self._usual_calls(work))
        elif self.group is not None:
            self._follow(self.group, self._usual_calls(work))
        elif self.makers:
            return self._turn()
        return None

    def _turn(self) -> str | None:
        """The way of a call by which ways are timed; None if it is not to be timed."""
        if self.turns is None:
            if len(self.times[self.first]) <= _ROUNDS:
                return self.first
            if self.calls == 0:
                self._expect(self.times[self.first])
            self.calls += 1
            if self.calls * self.least >= SHARE_TO_WAIT_FOR * PATIENCE and not self.waited_for:
                self.waited_for = True
                groups_of(self.device).begin(self)
            if self.calls * self.least < PATIENCE:
                return None
            self.times = {name: [] for name in self.makers}
            self.turns = self._plan()
        while self.turns:
            name, timed = self.turns.pop(0)
            if self._take(name):
                return name if timed else None
        self._decide()
        return None

    def _expect(self, samples: list[Sample]) -> None:
        self.usual_work = mean_work(samples)
        self.least = seconds_at(self.usual_work, samples)

    def _usual_calls(self, work: float) -> float | None:
        """How many usual calls have so much work; None where all calls have the same."""
        return work / self.usual_work if self.open_sizes is not None else None

    def _plan(self) -> list[tuple[str, bool]]:
        """Ways in turn, there and back: what else the machine does hits all of them."""
        there = list(self.makers)
        count = _ROUNDS_OF_SHORT if self.least < _SHORT else _ROUNDS
        if self.open_sizes is not None:
            count *= _TIMES_FOR_OPEN_SIZES
        rounds = [there if number % 2 == 0 else there[::-1] for number in range(count)]
        return [(name, timed) for names in rounds for name in names for timed in (False, True)]

    def _take(self, name: str) -> bool:
        """Whether the way can be taken; it is compiled when it is taken first."""
        if name not in self.runs:
            try:
                self.runs[name] = self.makers[name]()
            except Exception as problem:
                warnings.warn(f"a graph stays as it is: way '{name}': {problem}", stacklevel=2)
                self.runs[name] = None
        if self.runs[name] is None:
            return False
        self.run = self.runs[name]
        return True

    def _take_with_program(self, name: str) -> None:
        """Takes a way whose side, if it is of one, is the program's, too."""
        before, self.with_program = self.with_program, name
        if before == name:
            return
        self._take(name)
        self.run = _with_program(self.run, self.device, name)
        if before in (HOST, DEVICE) and name not in (HOST, DEVICE):
            _C.forget_side(self.device)

    def _decide(self) -> None:
        """By the least time of each way, or, where the device is a CPU, of each side."""
        known = {name: samples for name, samples in self.times.items() if samples}
        self.usual_work = mean_work(sample for samples in known.values() for sample in samples)
        least = self.least_times = {
            name: seconds_at(self.usual_work, samples) for name, samples in known.items()
        }
        groups = groups_of(self.device)
        others = [name for name in least if name != HOST]
        if _is_cpu(self.device) and HOST in least and others:
            mixed = min(others, key=lambda name: least[name])
            self.sides = {HOST: HOST, MIXED: mixed, DEVICE: DEVICE if DEVICE in least else mixed}
            seconds = {side: least[way] for side, way in self.sides.items()}
            self.group = groups.join(self, self.calls, seconds)
        else:
            groups.leave(self)
            best = min(least, key=lambda name: least[name])
            self._stay(best if self._saves(best, self.first) > 0 else self.first)

    def _saves(self, other: str, usual: str) -> float:
        """Seconds that another way takes less than the usual one; 0 if that is little."""
        saved = self.least_times[usual] - self.least_times[other]
        return saved if saved >= (1 - _MARGIN) * self.least_times[usual] else 0.0

    def _follow(self, group: Group, usual_calls: float | None) -> None:
        """Takes the side of the other graphs of the program."""
        group.begin_call(self, self.clock, usual_calls)
        decided = group.decided  # before the side, which another thread may change until then
        usual = self.sides[group.side]
        self._take_with_program(usual)
        if decided:
            self.group = None
            other = min(self.sides.values(), key=lambda name: self.least_times[name])
            saved = self._saves(other, usual)
            if saved > 0:
                self.alone = usual, other, _GAIN * saved
            else:
                self._stay(usual)

    def _compare(self, usual: str, other: str, gain: float, usual_calls: float | None) -> None:
        """Takes the next of two ways that the program is timed by, or stays with the better.

        One graph after the other: the usual way, until it is this one's turn.
        """
        groups = groups_of(self.device)
        if not groups.begins_alone(self):
            self.program = None
            self._take_with_program(usual)
            return
        if self.program is None:
            self.program = ProgramTime(usual, other, gain=gain)
        way = self.program.next_way(self.clock, usual_calls)
        if way is not None:
            self._take_with_program(way)
            return
        groups.end_alone()
        self.alone = None
        self._stay(self.program.best())

    def _stay(self, best: str) -> None:
        self._take_with_program(best)
        if self.layouts is not None:
            self.run = LaidOut(self.run, self.layouts)
        self.makers, self.runs = {}, {}
        remember(self.key, best)

    def _like_first(self, results: Any) -> Any:
        """Results laid out in memory as by the first way: code of other graphs relies on that."""
        if self.open_sizes is not None:
            return results
        if self.layouts is None:
            self.layouts = layouts_of(results)
        return as_laid_out(results, self.layouts)


def choose(
    key: str,
    chosen: str | None,
    device: int,
    makers: dict[str, Callable[[], Any]],
    layouts: Sequence[Any] | None = None,
    sizes: OpenSizes | None = None,
) -> Any:
    """A graph by the way that is chosen, or one that will choose.

    Args:
        key: what the choice is kept by.
        chosen: the way, if there is one.
        device: index of the device.
        makers: what compiles to "kernels", for the "host", and, where it can, to "eager".
        layouts: strides of the results, if they are not those of the first way.
        sizes: if they are open.
    """
    kernels = functools.cache(makers["kernels"])
    ways: dict[str, Callable[[], Any]] = {
        **makers,
        "kernels": kernels,
        "device": lambda: DeviceGraph(kernels()),
    }
    if chosen not in ways:
        order = ("kernels", "device", "host", "eager")
        known = {way: ways[way] for way in order if way in ways}
        return MeasuredGraph(key, device, known, layouts, sizes)
    run = _with_program(ways[chosen](), device, chosen)
    return run if layouts is None else LaidOut(run, layouts)
