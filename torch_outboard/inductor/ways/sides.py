"""All graphs of a program on the side of the host, or all on that of the device, compared.

Where the device is a processor, both sides have threads of their own on it, which spin and wake
beside each other. So a program whose graphs are on one side may be faster than one whose graphs
each have the way that is fastest by itself, and how fast a side is shows in the whole program.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from torch_outboard.inductor.ways.program_time import ProgramTime

HOST, DEVICE = "host", "device"
# Calls of a graph that it waits for others, which have not tried all of their ways.
_CALLS_TO_WAIT = 200
# Calls of others after which a graph, by whose calls a program was timed, is not waited for.
_CALLS_TO_MISS = 50


class Group:
    """Graphs that change sides together, whenever one of them, the lead, is called.

    Args:
        others_try: whether graphs outside of the group go through their ways.

    Attributes:
        side: the one of the present calls.
        decided: whether it is the better one, and stays.
    """

    def __init__(self, others_try: Callable[[], bool]) -> None:
        self._others_try = others_try
        self.side = DEVICE
        self.decided = False
        self._lock = threading.Lock()
        self._lead: weakref.ref[object] | None = None
        self._waited = 0
        self._missed = 0
        self._times: ProgramTime | None = None

    def begin_call(self, graph: object, clock: Callable[[], float]) -> None:
        """Notes that a call of a graph begins, for which `side` holds then.

        Args:
            graph: one of the group.
            clock: the time in seconds when the device has done its work; asked of the lead alone.
        """
        with self._lock:
            if self.decided or not self._leads(graph):
                return
            if self._times is None:
                self._waited += 1
                if self._others_try() and self._waited < _CALLS_TO_WAIT:
                    return
                self._times = ProgramTime(HOST, DEVICE, gain=0.0)
            side = self._times.next_way(clock())
            self.decided = side is None
            self.side = side or self._times.better()

    def _leads(self, graph: object) -> bool:
        """Whether the graph is the lead; it becomes that if there is none, or if it was missed."""
        lead = self._lead() if self._lead is not None else None
        if lead is not graph:
            self._missed += 1
            if lead is not None and self._missed < _CALLS_TO_MISS:
                return False
            self._lead, self._waited, self._times = weakref.ref(graph), 0, None
        self._missed = 0
        return True


class Groups:
    """The graphs of a device: those that go through their ways, and the group of those that have."""

    def __init__(self) -> None:
        self._trying: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._group = Group(self._any_tries)

    def _any_tries(self) -> bool:
        return len(self._trying) > 0

    def begin(self, graph: object) -> None:
        """Notes that a graph goes through its ways from now on."""
        with self._lock:
            self._trying[id(graph)] = graph

    def join(self, graph: object) -> Group:
        """The group of a graph that has gone through its ways."""
        with self._lock:
            self._trying.pop(id(graph), None)
            if self._group.decided:
                self._group = Group(self._any_tries)
            return self._group


_groups: dict[int, Groups] = {}


def groups_of(device: int) -> Groups:
    """Those of a device, by its index."""
    return _groups.setdefault(device, Groups())
