"""All graphs of a program on the side of the host, or all on that of the device, compared.

Where the device is a processor, both sides have threads of their own on it, which spin and wake
beside each other. So a program whose graphs are on one side may be faster than one whose graphs
each have the way that is fastest by itself, and how fast a side is shows in the whole program.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from torch_outboard.inductor.ways.program_time import Clock, ProgramTime

# All by code for the host; each as is fastest for it otherwise, which may call operators of the
# host; and all by the device alone.
HOST, MIXED, DEVICE = SIDES = "host", "mixed", "device"
# The share of its way to its decision after which others wait for a graph, and how many times as
# many calls as they had till then they do at most.
SHARE_TO_WAIT_FOR = 0.1
_TIMES_TO_WAIT = 10
# Calls of others after which a graph, by whose calls a program is timed, is not waited for.
_CALLS_TO_MISS = 50
# How many times as long as the fastest side's graphs those of a side may take by themselves, for it
# to be compared.
_WORTH_COMPARING = 2.5
# Of the time on the side of the host, which is that of code for CPU: what another one has to save.
# Rows differ by as much, and sides whose times are the same are no reason to leave it.
_SHARE = 0.02


class Lead:
    """The graph by whose calls a program is timed; another one takes its place if it is missed."""

    def __init__(self) -> None:
        self._graph: weakref.ref[object] | None = None
        self._missed = 0

    def graph(self) -> object | None:
        return self._graph() if self._graph is not None else None

    def is_taken_by(self, graph: object) -> bool:
        """Whether a graph that is called is the lead now."""
        lead = self.graph()
        if lead is graph:
            self._missed = 0
            return True
        self._missed += 1
        if lead is not None and self._missed < _CALLS_TO_MISS:
            return False
        self._graph, self._missed = weakref.ref(graph), 0
        return True

    def leave(self) -> None:
        self._graph = None


class Group:
    """Graphs that change sides together, whenever one of them, the lead, is called.

    Args:
        others_try: whether graphs outside of the group will have gone through their ways soon.

    Attributes:
        side: the one of the present calls.
        decided: whether it is the better one, and stays.
    """

    def __init__(self, others_try: Callable[[], bool]) -> None:
        self._others_try = others_try
        self.side = MIXED
        self.decided = False
        self._lock = threading.Lock()
        self._lead = Lead()
        self._calls_to_wait = 0
        self._seconds = dict.fromkeys(SIDES, 0.0)
        self._waited = 0
        self._times: ProgramTime | None = None

    def add(self, calls: int, seconds: dict[str, float]) -> None:
        """Adds a graph.

        Args:
            calls: those that it has had. The group waits for others as many times over.
            seconds: what it takes by itself on each side.
        """
        self._calls_to_wait = max(self._calls_to_wait, _TIMES_TO_WAIT * calls)
        for side in SIDES:
            self._seconds[side] += seconds[side]

    def begin_call(self, graph: object, clock: Clock, usual_calls: float | None = None) -> None:
        """Notes that a call of a graph begins, for which `side` holds then.

        Args:
            graph: one of the group.
            clock: asked at calls of the lead alone.
            usual_calls: as of `ProgramTime.next_way`.
        """
        # Another thread's call goes along: the clock may wait for work that waits for that thread.
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._begin_call(graph, clock, usual_calls)
        finally:
            self._lock.release()

    def _begin_call(self, graph: object, clock: Clock, usual_calls: float | None) -> None:
        lead = self._lead.graph()
        if self.decided or not self._lead.is_taken_by(graph):
            return
        if lead is not graph:
            self._waited, self._times = 0, None
        if self._times is None:
            self._waited += 1
            if self._others_try() and self._waited <= self._calls_to_wait:
                return
            least = min(self._seconds.values())
            sides = [side for side in SIDES if self._seconds[side] <= _WORTH_COMPARING * least]
            if len(sides) == 1:
                (self.side,), self.decided = sides, True
                return
            self._times = ProgramTime(*sides, share=_SHARE)
        side = self._times.next_way(clock, usual_calls)
        self.side = side or self._times.best()
        self.decided = side is None


class Groups:
    """The graphs of a device: those that will have gone through their ways soon, and the group of
    those that have.
    """

    def __init__(self) -> None:
        self._trying: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._group = Group(self._any_tries)
        self._lead = Lead()  # of those that leave the side of their group, one after the other

    def _any_tries(self) -> bool:
        return len(self._trying) > 0

    def leave(self, graph: object) -> None:
        """Notes that others need not wait for a graph."""
        with self._lock:
            self._trying.pop(id(graph), None)

    def begin(self, graph: object) -> None:
        """Notes that others wait for a graph from now on."""
        with self._lock:
            self._trying[id(graph)] = graph

    def join(self, graph: object, calls: int, seconds: dict[str, float]) -> Group:
        """The group of a graph that has gone through its ways; arguments as of `Group.add`."""
        with self._lock:
            self._trying.pop(id(graph), None)
            if self._group.decided:
                self._group = Group(self._any_tries)
            self._group.add(calls, seconds)
            return self._group

    def begins_alone(self, graph: object) -> bool:
        """Whether a graph that is called may change sides by itself now, as no other one does."""
        with self._lock:
            return self._lead.is_taken_by(graph)

    def end_alone(self) -> None:
        """Lets another graph change sides by itself."""
        with self._lock:
            self._lead.leave()


_groups: dict[int, Groups] = {}


def groups_of(device: int) -> Groups:
    """Those of a device, by its index."""
    return _groups.setdefault(device, Groups())
