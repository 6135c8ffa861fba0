"""diffusers: `device_map` of pipelines, and `enable_model_cpu_offload()` without a device.

Upstream, and what is changed:

- `utils.torch_utils.get_device`: the device's name instead of "cpu"
- `pipelines.pipeline_utils.SUPPORTED_DEVICE_MAP`: a list of names

`device_map="balanced"` asks accelerate.
"""

from __future__ import annotations

from typing import Any

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place


def _choose_device(module: Any, changes: Changes) -> None:
    changes.replace_cpu(module, "get_device")


def _allow_name(module: Any, changes: Changes) -> None:
    changes.append(module.SUPPORTED_DEVICE_MAP, device_name())


LIBRARY = Library(
    name="diffusers",
    distribution="diffusers",
    tried="0.42.1",
    places=(
        Place("the default device", "diffusers.utils.torch_utils", _choose_device),
        Place("device_map", "diffusers.pipelines.pipeline_utils", _allow_name),
    ),
    needs=("accelerate",),
)
