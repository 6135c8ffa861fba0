"""Whether the kit's device kernels or its host kernels run an operator, per device.

- `"auto"`: whatever is better on this device, for each operator (else its family of kernels) and
  number of elements as `python -m torch_outboard tune` has measured it. What was not measured
  follows a default: where host and device share memory and the device is a CPU, the host's kernels;
  elsewhere the device's.
- `"device"`: the kit's device kernels, wherever one serves the call.
- `"host"`: the kit's device kernels never.

Kernels of makers and users are not concerned. `OUTBOARD_WAY` sets the start; it is `auto`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from torch_outboard import _C
from torch_outboard.device.devices import DeviceLike, device_index
from torch_outboard.variables import WAY_VARIABLE

__all__ = ["get_way", "ranges", "set_way", "way"]

WAYS = ("auto", "device", "host")


def _check(name: str) -> None:
    if name not in WAYS:
        raise ValueError(f"{name!r} is no way; use 'auto', 'device' or 'host'")


def get_way(device: DeviceLike = None) -> str:
    """The way of a device (default: the current one): `"auto"`, `"device"` or `"host"`."""
    return _C.way_setting(device_index(device))


def ranges(device: DeviceLike = None) -> dict[str, list[tuple[int, int | None]]]:
    """What `"auto"` was measured to mean on a device (default: the current one).

    Returns:
        By operator ("aten::add", which stands for its overloads) and by family of kernels, which
        counts for the other operators: the numbers of elements for which the device's kernels are
        taken, as pairs of the first number and of the one behind the last, which is None where
        there is no end. What was not measured is missing and follows the default.
    """
    index = device_index(device)
    _C.bring_device_kernels()
    return _C.way_ranges(index)


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
    name = os.environ.get(WAY_VARIABLE)
    if name:
        try:
            set_way(name)
        except ValueError as error:
            raise ValueError(f"{WAY_VARIABLE}: {error}") from None
