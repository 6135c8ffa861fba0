"""Whether the kit's device kernels or its host kernels run an operator, per device.

- `"auto"`: the device's kernels, but for programs that the host's would make faster where a CPU
  shares its memory with the host. Calls of all operators count for the side that they are better
  on, as `python -m torch_outboard tune` has measured them, and a program moves to the other side
  once that would have saved it some milliseconds. With deterministic algorithms it stays where it
  is, since results of the two sides differ in the last digits.
- `"device"`: the kit's device kernels, wherever one serves the call.
- `"host"`: the kit's device kernels never.

Kernels of makers and users are not concerned. `OUTBOARD_WAY` sets the start; it is `auto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from torch_outboard import _C, settings
from torch_outboard.device.devices import DeviceLike, device_index
from torch_outboard.variables import WAY_VARIABLE

__all__ = ["get_way", "savings", "set_way", "way"]

WAYS = ("auto", "device", "host")


def _check(name: str) -> None:
    if name not in WAYS:
        raise ValueError(f"{name!r} is no way; use 'auto', 'device' or 'host'")


def get_way(device: DeviceLike = None) -> str:
    """The way of a device (default: the current one): `"auto"`, `"device"` or `"host"`."""
    return _C.way_setting(device_index(device))


def savings(device: DeviceLike = None) -> dict[str, list[float]]:
    """By what `"auto"` decides on a device (default: the current one).

    Returns:
        By operator ("aten::add", which stands for its overloads), else by family of kernels: the
        microseconds that a host kernel saves, negative where it loses. Element i of the list is
        about calls with less than 2^i elements and at least half as many. Empty where the device's
        kernels are always taken.
    """
    index = device_index(device)
    _C.load_device_kernels()
    return {name: [ns / 1000 for ns in saved] for name, saved in _C.way_savings(index).items()}


def set_way(name: str, device: DeviceLike = None) -> None:
    """Sets the way of a device, or of all devices, for the whole process.

    Raises:
        ValueError: if there is no such way.
    """
    _check(name)
    _C.set_way_setting(-1 if device is None else device_index(device), name)


@contextmanager
def way(name: str, device: DeviceLike = None) -> Iterator[None]:
    """Sets the way for a `with` block, in all threads, and puts the old ones back."""
    _check(name)
    indices = range(_C.device_count()) if device is None else [device_index(device)]
    before = {index: _C.way_setting(index) for index in indices}
    try:
        for index in indices:
            _C.set_way_setting(index, name)
        yield
    finally:
        for index, old in before.items():
            _C.set_way_setting(index, old)


def configure_from_environment() -> None:
    """Applies `OUTBOARD_WAY`; called when the backend is loaded.

    Raises:
        ValueError: if it names no way.
    """
    if name := settings.read(WAY_VARIABLE):
        set_way(cast("str", name))
