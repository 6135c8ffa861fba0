"""What a program takes from a call of a graph to its next one, by each of some ways of that graph.

Within that time the program runs what else it has: other graphs, and eager operators. Where the
device is a processor, these share its threads and caches, so what a way takes of its own graph is
not all that it costs.
"""

from __future__ import annotations

import random
from statistics import median

# Calls by one way in a row: as many as take this many seconds, but some at least. Those in the
# first half are not timed, since the system takes its time to move threads from where they were.
ROW_SECONDS, _ROW_CALLS = 0.1, 3
_ROWS = 3  # of each way


class ProgramTime:
    """Compares ways on a program's calls.

    Args:
        ways: two or more; the first is the usual one.
        gain: seconds that a program has to take less by another one.
    """

    def __init__(self, *ways: str, gain: float) -> None:
        self.gain = gain
        self.times: dict[str, list[float]] = {way: [] for way in ways}
        # Programs call a graph at several places, perhaps in turn: ways take turns by chance.
        chance = random.Random(0)
        self.rows = [way for _ in range(_ROWS) for way in chance.sample(ways, len(ways))]
        self.row: list[float] = []  # when its calls began

    def next_way(self, now: float) -> str | None:
        """The way of a call that begins at a time in seconds; None if there are enough."""
        if self.row:
            first, last = self.row[0], self.row[-1]
            if last > first and last - first >= ROW_SECONDS / 2:
                self.times[self.rows[0]].append(now - last)
            if len(self.row) >= _ROW_CALLS and now - first >= ROW_SECONDS:
                self.rows.pop(0)
                self.row = []
        if not self.rows:
            return None
        self.row.append(now)
        return self.rows[0]

    def best(self) -> str:
        """The way by whose median the program gains most, if that is enough; else the usual one."""
        usual, *others = self.times
        times = {way: median(times) for way, times in self.times.items()}
        best = min(others, key=lambda way: times[way])
        return best if times[usual] - times[best] >= self.gain else usual
