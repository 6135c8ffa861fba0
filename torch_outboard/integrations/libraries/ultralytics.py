"""ultralytics: `device="ocl"` of `train`, `predict` and `val`.

Upstream, and what is changed:

- `utils.torch_utils.select_device`: passes the device's name on, as it does a `torch.device`
- `utils.checks.check_amp`: the list of devices that train without mixed precision, whose scaler
  would be CUDA's
"""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place


def _accept_name(module: Any, changes: Changes) -> None:
    changes.replace_function(module, "select_device", _with_name)


def _with_name(before: Any) -> Any:
    def select_device(device: Any = "", *arguments: Any, **options: Any) -> Any:
        if isinstance(device, str) and device.lower().partition(":")[0] == device_name():
            device = torch.device(device.lower())
        found = before(device, *arguments, **options)
        if device in (None, "") and found.type == "cpu":
            return torch.device(device_name())
        return found

    return select_device


def _without_mixed_precision(module: Any, changes: Changes) -> None:
    changes.extend_constant(module.check_amp, ("cpu", "mps"), device_name())


LIBRARY = Library(
    name="ultralytics",
    distribution="ultralytics",
    tried="8.4.190",
    places=(
        Place("the device's name", "ultralytics.utils.torch_utils", _accept_name),
        Place("training", "ultralytics.utils.checks", _without_mixed_precision),
    ),
)
