"""safetensors: `load_file(path, device="ocl")`, and `safe_open`.

Upstream, and what is changed:

- `safetensors.safe_open`, written in Rust, which knows a list of names: takes the device's name as
  its index, which stands for the accelerator
"""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place


def _translate_names(module: Any, changes: Changes) -> None:
    changes.replace_function(module, "safe_open", _with_index)


def _with_index(before: Any) -> Any:
    def safe_open(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        if str(device).partition(":")[0] == device_name():
            index = torch.device(device).index
            device = torch.accelerator.current_device_index() if index is None else index
        return before(filename, framework, device=device, **options)

    return safe_open


LIBRARY = Library(
    name="safetensors",
    distribution="safetensors",
    tried="0.8.0",
    places=(Place("the device's name", "safetensors", _translate_names),),
)
