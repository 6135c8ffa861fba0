"""The current device in generated code, with as few steps as there are."""

from __future__ import annotations

from torch_outboard import _C


class DeviceGuard:
    """Makes a device current, and at its end the one that was."""

    __slots__ = ("index", "previous")

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        self.previous = _C.exchange_device(self.index)

    def __exit__(self, *error: object) -> None:
        _C.exchange_device(self.previous)
