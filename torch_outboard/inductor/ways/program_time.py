"""What a program takes from a call of a graph to its next one, by each of some ways of that graph.

Within that time the program runs what else it has: other graphs, and eager operators. Where the
device is a processor, these share its threads and caches, so what a way takes of its own graph is
not all that it costs. The program is not made to wait meanwhile, since it gains by work that goes
on while it gives more.
"""

from __future__ import annotations

import random
import time
from statistics import median
from typing import Protocol

import torch

from torch_outboard.state import state

# A row is calls by one way: 1, then 2, 4 and so on, until that many take so many seconds. These
# are timed, and all before are not, since the system takes its time to move threads from where
# they were.
TIMED_SECONDS = 0.05
# Where calls differ in their work, a row has so many at least.
_CALLS_OF_OPEN_SIZES = 8
# Rounds are rows of all ways; after so many seconds of them, some are enough.
_ROUNDS, _ROUNDS_OF_LONG, _LONG = 5, 3, 10.0


class Clock(Protocol):
    """What tells the time, in seconds."""

    def when_done(self) -> float:
        """Waits until the device has done what it was told to."""


class DeviceClock:
    """The system's clock, for work on a device.

    Args:
        device: its index.
    """

    def __init__(self, device: int) -> None:
        self.device = device

    def when_done(self) -> float:
        torch.get_device_module(state.name).synchronize(self.device)
        return time.perf_counter()


class ProgramTime:
    """Compares ways on a program's calls.

    Args:
        ways: two or more; the first is the usual one.
        gain: seconds that a program has to take less by another one.
        share: the same, of its time by the usual one.

    Attributes:
        times: seconds from a usual call to the next one, of each row.
    """

    def __init__(self, *ways: str, gain: float = 0.0, share: float = 0.0) -> None:
        self.gain = gain
        self.share = share
        self.times: dict[str, list[float]] = {way: [] for way in ways}
        # Programs call a graph at several places, perhaps in turn: ways take turns by chance.
        self._chance = random.Random(0)
        self._rows: list[str] = []  # of the round
        self._began: float | None = None
        # The calls that are timed together: how many, how many are to come, and when they began.
        self._count = self._left = 0
        self._start = 0.0
        self._done = 0.0  # their work

    def next_way(self, clock: Clock, usual_calls: float | None = None) -> str | None:
        """The way of a call that begins; None if there were enough.

        Args:
            usual_calls: how many usual ones the call has the work of, if calls differ in that.
        """
        if self._left == 0:
            now = clock.when_done()
            least = 2 if usual_calls is None else _CALLS_OF_OPEN_SIZES
            if not self._ends_row(now, least):
                self._count *= 2
            elif self._begins_row(now):
                self._count = 1
            else:
                return None
            self._left, self._start, self._done = self._count, now, 0.0
        self._left -= 1
        self._done += 1.0 if usual_calls is None else usual_calls
        return self._rows[0]

    def _ends_row(self, now: float, least: int) -> bool:
        """Notes how long calls took, if that is to be known; whether there is no row any more."""
        if self._count == 0:
            return True
        seconds = now - self._start
        if self._count < least or seconds < TIMED_SECONDS:
            return False
        self.times[self._rows.pop(0)].append(seconds / self._done)
        return True

    def _begins_row(self, now: float) -> bool:
        """Whether there is another row."""
        if self._began is None:
            self._began = now
        if not self._rows:
            done = min(len(times) for times in self.times.values())
            if done >= (_ROUNDS if now - self._began < _LONG else _ROUNDS_OF_LONG):
                return False
            self._rows = self._chance.sample([*self.times], len(self.times))
        return True

    def best(self) -> str:
        """The way by whose median the program gains most, if that is enough; else the usual one."""
        usual, *others = self.times
        times = {way: median(times) for way, times in self.times.items()}
        best = min(others, key=lambda way: times[way])
        wanted = max(self.gain, self.share * times[usual])
        return best if times[usual] - times[best] >= wanted else usual
