"""Placement of operators with a device kernel of torch_outboard: a setting per device.

- `"auto"`: the CPU's kernels on a device that is a CPU and shares the host's memory, until
  `torch.compile` has compiled a graph to device kernels for it; otherwise device kernels.
- `"device"`: device kernels, wherever one serves the call.
- `"host"`: the CPU's kernels.

Kernels of hardware vendors and users always run. Graphs of `torch.compile` run by device kernels,
unless the setting is `"host"`. `OUTBOARD_PLACEMENT` sets the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch_outboard import _C, settings
from torch_outboard.device.devices import DeviceLike, device_index

__all__ = ["get_placement", "runs_on_device", "set_placement", "use"]

PLACEMENTS = ("auto", "device", "host")


def get_placement(device: DeviceLike = None) -> str:
    """The setting of a device (default: the current one): `"auto"`, `"device"` or `"host"`."""
    return _C.placement_setting(device_index(device))


def runs_on_device(device: DeviceLike = None) -> bool:
    """Whether device kernels run operators of a device (default: the current one).

    Raises:
        RuntimeError: if the setting is `"device"` and the device's compiler does not work.
    """
    return _C.runs_on_device(device_index(device))


def set_placement(name: str, device: DeviceLike = None) -> None:
    """Sets the placement of a device, or of all devices, for the whole process.

    Raises:
        ValueError: if `name` is no placement.
    """
    _C.set_placement_setting(-1 if device is None else device_index(device), name)


@contextmanager
def use(name: str, device: DeviceLike = None) -> Iterator[None]:
    """Sets the placement for a `with` block, in all threads, and restores the previous one.

    Raises:
        ValueError: if `name` is no placement.
    """
    indices = range(_C.device_count()) if device is None else [device_index(device)]
    before = {index: _C.placement_setting(index) for index in indices}
    try:
        for index in indices:
            _C.set_placement_setting(index, name)
        yield
    finally:
        for index, old in before.items():
            _C.set_placement_setting(index, old)


def configure_from_environment() -> None:
    """Applies `OUTBOARD_PLACEMENT`; called when the backend is loaded.

    Raises:
        ValueError: if it names no placement.
    """
    if name := settings.read("OUTBOARD_PLACEMENT"):
        set_placement(name)
