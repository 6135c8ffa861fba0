"""Around the code of a graph: its device is current, and operators that it calls run there."""

from __future__ import annotations

from torch_outboard import _C


class DeviceGuard:
    """Makes a device and the placement "device" current, and restores what was."""

    __slots__ = ("index", "previous")

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        self.previous = _C.enter_graph(self.index)

    def __exit__(self, *error: object) -> None:
        _C.leave_graph(self.previous)
