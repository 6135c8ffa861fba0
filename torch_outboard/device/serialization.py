"""Saving and loading: checkpoints of other drivers, and strings attached to tensors.

`torch.save` and `torch.load` need nothing from here; a storage of the device is tagged
"<driver>:<index>", and PyTorch maps that tag to the device of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch

from torch_outboard import _C
from torch_outboard.drivers.discovery import SHIPPED_DRIVERS, installed_drivers
from torch_outboard.state import state

# After all of PyTorch's own packages, which end at 26: only unknown tags get here.
_PRIORITY = 100
# Before all of them, so that every storage passes.
_FIRST = 7


def set_tensor_metadata(tensor: torch.Tensor, metadata: Mapping[str, str]) -> None:
    """Attaches strings to a device tensor; `torch.save` keeps them. Replaces earlier ones.

    Loading the tensor to another kind of device drops them.

    Args:
        tensor: a tensor of the device.
        metadata: strings by key; a key is not empty and has no "=".

    Raises:
        ValueError: if the tensor is on another device, or a key is invalid.
    """
    _C.set_tensor_metadata(tensor, dict(metadata))


def tensor_metadata(tensor: torch.Tensor) -> dict[str, str]:
    """The strings attached by `set_tensor_metadata`; empty if there are none."""
    return _C.tensor_metadata(tensor)


def _no_tag(storage: object) -> None:
    """No tag: storages of the device get PyTorch's tag."""


def _expect_metadata(storage: object, location: str) -> None:
    """Prepares for strings attached to a storage of the device that is about to be loaded."""
    if location.partition(":")[0] == state.name:
        _C.take_metadata_slot()


def _load_from_other_driver(
    storage: torch.types.Storage | torch.TypedStorage | torch.UntypedStorage, location: str
) -> torch.UntypedStorage | None:
    """Puts a storage saved under another driver's name on this device, under the same index."""
    name, _, index = location.partition(":")
    if name == state.name or not _is_driver(name) or not f"{index or 0}".isdecimal():
        return None
    module = torch.get_device_module(state.name)
    number = int(index or 0)
    if number >= module.device_count():
        raise RuntimeError(
            f"the checkpoint holds a storage of '{location}', and '{state.name}' has "
            f"{module.device_count()} devices; load with map_location to choose one"
        )
    device = torch.device(state.name, number)
    moved: torch.UntypedStorage = cast(torch.UntypedStorage, storage).to(device=device)
    return moved


def _is_driver(name: str) -> bool:
    return name in SHIPPED_DRIVERS or name in installed_drivers()


def register() -> None:
    """Makes checkpoints of other drivers and attached strings known to PyTorch."""
    torch.serialization.register_package(_PRIORITY, _no_tag, _load_from_other_driver)
    torch.serialization.register_package(_FIRST, _no_tag, _expect_metadata)
