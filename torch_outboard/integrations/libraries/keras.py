"""keras with the backend "torch": the device of its variables and results.

Upstream, and what is changed:

- `src.backend.torch.core.DEFAULT_DEVICE`: the device instead of the CPU, unless KERAS_TORCH_DEVICE
  says one
"""

from __future__ import annotations

import os
from typing import Any

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes, expect
from torch_outboard.integrations.library import Library, Place


def _choose_device(module: Any, changes: Changes) -> None:
    expect(isinstance(module.DEFAULT_DEVICE, str), "DEFAULT_DEVICE is no name")
    if module.DEFAULT_DEVICE == "cpu" and "KERAS_TORCH_DEVICE" not in os.environ:
        changes.set(module, "DEFAULT_DEVICE", device_name())


LIBRARY = Library(
    name="keras",
    distribution="keras",
    tried="3.15.1",
    places=(Place("the default device", "keras.src.backend.torch.core", _choose_device),),
)
