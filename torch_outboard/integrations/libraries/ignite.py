"""pytorch-ignite: `ignite.distributed.device()` and what it moves there, `auto_model` and others.

Upstream, and what is changed:

- `distributed.comp_models.base._SerialModel.device`: the device instead of the CPU
"""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place


def _choose_device(module: Any, changes: Changes) -> None:
    changes.replace(module._SerialModel, "device", _instead_of_cpu)


def _instead_of_cpu(before: Any) -> Any:
    def device(self: Any) -> torch.device:
        found: torch.device = before(self)
        return torch.device(device_name()) if found.type == "cpu" else found

    return device


LIBRARY = Library(
    name="ignite",
    distribution="pytorch-ignite",
    tried="0.5.5",
    places=(Place("the default device", "ignite.distributed.comp_models.base", _choose_device),),
)
