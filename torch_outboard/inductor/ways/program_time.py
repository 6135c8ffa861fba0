"""What a program takes from a call of a graph to its next one, by two ways of that graph.

Within that time the program runs what else it has: other graphs, and eager operators. Where the
device is a processor, these share its threads and caches, so what a way takes of its own graph is
not all that it costs.
"""

from __future__ import annotations

import random
from statistics import median

# Seconds that all calls together may take, and how many pairs of them there are at least and at
# most.
_SECONDS = 0.5
_LEAST_PAIRS, _MOST_PAIRS = 5, 25
_CALLS_IN_A_ROW = 3  # of which the first is not timed: it comes after calls of the other way


class ProgramTime:
    """Compares two ways on a program's calls.

    Args:
        usual: a way.
        other: another one.
        gain: seconds that a program has to take less by the other way.
    """

    def __init__(self, usual: str, other: str, gain: float) -> None:
        self.usual = usual
        self.other = other
        self.gain = gain
        self.times: dict[str, list[float]] = {usual: [], other: []}
        # Programs call a graph at several places, perhaps in turn: ways take turns by chance.
        self.chance = random.Random(0)
        self.turns: list[tuple[str, bool]] = []
        self.began: tuple[str, bool, float] | None = None

    def next_way(self, now: float) -> str | None:
        """The way of a call that begins at a time in seconds; None if there are enough."""
        if self.began is not None:
            way, timed, start = self.began
            if timed:
                self.times[way].append(now - start)
        if not self.turns:
            if self._is_enough():
                return None
            for way in self.chance.sample((self.usual, self.other), 2):
                self.turns += [(way, call > 0) for call in range(_CALLS_IN_A_ROW)]
        way, timed = self.turns.pop(0)
        self.began = way, timed, now
        return way

    def _is_enough(self) -> bool:
        pairs = min(map(len, self.times.values()))
        if pairs < _LEAST_PAIRS:
            return False
        seconds = sum(map(sum, self.times.values())) * _CALLS_IN_A_ROW / (_CALLS_IN_A_ROW - 1)
        return pairs >= _MOST_PAIRS or seconds >= _SECONDS

    def better(self) -> str:
        """The other way if the program gains enough by it, by the medians; else the usual one."""
        gained = median(self.times[self.usual]) - median(self.times[self.other])
        return self.other if gained >= self.gain else self.usual
