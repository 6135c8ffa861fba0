"""States of random numbers in captured graphs: places that are filled anew before each replay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


class States:
    """What a graph reserves of the generator in one run, in the order of its operators.

    Args:
        reserve: makes the int64 of sizes (count, 2) on a device; those of eager mode.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, torch.device, Callable[[], torch.Tensor]]] = []
        self.places: list[torch.Tensor] = []
        self.taken = 0

    def make_places(self) -> None:
        """Outside of a capture, lest work that is captured writes there."""
        self.places = [
            torch.zeros((count, 2), dtype=torch.int64, device=device)
            for count, device, _ in self.calls
        ]
        self.taken = 0

    def refill(self) -> None:
        """Reserves again, as the graph would if it ran."""
        for place, (_, _, reserve) in zip(self.places, self.calls, strict=True):
            place.copy_(reserve())


class _Active(threading.local):
    states: States | None = None


_active = _Active()


def reserve_or_place(
    count: int, device: torch.device, reserve: Callable[[], torch.Tensor]
) -> torch.Tensor:
    """States of `count` operators; while a graph is captured, where each replay puts them."""
    states = _active.states
    if states is None:
        return reserve()
    if not states.places:
        states.calls.append((count, device, reserve))
        return reserve()
    place = states.places[states.taken]
    states.taken += 1
    return place


@contextmanager
def noting(states: States) -> Iterator[None]:
    """Notes what is reserved, or hands out its places if they were made."""
    before, _active.states = _active.states, states
    try:
        yield
    finally:
        _active.states = before
