"""A trace of dispatch: the operators that a program calls, their keys, and their nested calls.

PyTorch's own trace needs a debug build. This one records the events of PyTorch's observers
(RecordFunction) on all threads, those of backward passes included, and adds the router's placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from torch_outboard import _C
from torch_outboard.columns import columns
from torch_outboard.dispatch import dispatcher

__all__ = ["Call", "Trace", "trace"]


@dataclass(frozen=True)
class Call:
    """A call of an operator, or a time range named by PyTorch or the program."""

    name: str
    # Dispatch keys with kernels, in the order of the call; empty for a time range. The kernel of
    # the last key computed, or called the parts.
    keys: tuple[str, ...]
    placement: str | None  # "device", "host" or "copied"; None if the call was not routed
    dtype: torch.dtype | None  # of the first tensor argument
    device: str  # of the first tensor argument; "" if there is none
    thread: int  # from 0, in the order of their first calls
    seconds: float  # in the calling thread; 0 if it had not ended
    raised: bool  # it ended with an exception
    parts: list[Call] = field(default_factory=list, repr=False)

    def walk(self) -> Iterator[Call]:
        """This call and all nested calls, outer ones first."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass
class Trace:
    """The calls inside a `with torch_outboard.trace()` block; filled when it ends.

    `str(trace)` is a table in which nested calls are indented below their caller.
    """

    # Outermost calls, in the order in which they began.
    calls: list[Call] = field(default_factory=list)
    # Number of calls beyond the million that is recorded.
    dropped: int = 0

    def walk(self) -> Iterator[Call]:
        """All calls, outer ones first."""
        for call in self.calls:
            yield from call.walk()

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("call", "keys", "placement", "dtype", "device", "us")]
        threads = {call.thread for call in self.calls}
        for call in self.calls:
            rows += _lines(call, 0, f"[{call.thread}] " if len(threads) > 1 else "")
        text = columns(rows, right=(5,))
        return text + (f"\n... and {self.dropped} more" if self.dropped else "")


def _lines(call: Call, depth: int, thread: str) -> Iterator[tuple[str, ...]]:
    name = thread + "  " * depth + call.name + (" (raised)" if call.raised else "")
    dtype = str(call.dtype).removeprefix("torch.") if call.dtype else ""
    met = " > ".join(call.keys)
    yield name, met, call.placement or "", dtype, call.device, f"{call.seconds * 1e6:.0f}"
    for part in call.parts:
        yield from _lines(part, depth + 1, thread)


@contextmanager
def trace() -> Iterator[Trace]:
    """Records the calls of all operators in the process while the block runs.

    As with a report, every operator goes through the router, which makes typed host kernels slower.
    Traces do not nest.

    Raises:
        RuntimeError: if another trace runs.

    Examples::

        with torch_outboard.trace() as trace:
            model(x).sum().backward()
        print(trace)
    """
    result = Trace()
    _C.start_dispatch_trace()
    try:
        yield result
    finally:
        recorded, result.dropped = _C.stop_dispatch_trace()
        result.calls = _tree(recorded)


_Recorded = tuple[str, bool, list[str], torch.dtype | None, str, str | None, int, int, int, bool]


def _tree(recorded: list[_Recorded]) -> list[Call]:
    entries: dict[str, Mapping[str, dispatcher.Entry]] = {}
    calls: list[Call] = []
    roots: list[Call] = []
    for line in recorded:
        name, is_operator, met, dtype, device, placement, parent, thread, nanoseconds, raised = line
        kernels: tuple[str, ...] = ()
        if is_operator:
            if name not in entries:
                entries[name] = dispatcher.entries(name)
            kernels = tuple(e.key for e in dispatcher.path(met, entries[name]) if not e.fallthrough)
        seconds = nanoseconds * 1e-9
        call = Call(name, kernels, placement, dtype, device, thread, seconds, raised)
        calls.append(call)
        (calls[parent].parts if parent >= 0 else roots).append(call)
    return roots
