"""accelerate, and the libraries that choose their device by it: `transformers.Trainer`, trl, ...

Upstream, and what is changed:

- `state.PartialState.default_device`: reads ACCELERATE_TORCH_DEVICE, which is set
- `accelerator.Accelerator.__init__`: the list of devices with `mixed_precision="fp16"`
- `accelerator.get_grad_scaler`: a scaler of the device, where it was CUDA's
- `utils.modeling.get_max_memory`: the device's memory for `device_map="auto"`
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place

VARIABLE = "ACCELERATE_TORCH_DEVICE"


def _set_variable(_: Any, changes: Changes) -> None:
    changes.set_variable(VARIABLE, device_name())
    module = sys.modules.get("accelerate.state")
    state = getattr(module, "PartialState", None)
    device = state._shared_state.get("device") if state is not None else None
    if device is not None and device.type != os.environ[VARIABLE].partition(":")[0]:
        warnings.warn(
            f"accelerate has chosen {device} already; enable its integration before the first "
            "Accelerator, Trainer or TrainingArguments is made",
            stacklevel=6,
        )


def _allow_float16(module: Any, changes: Changes) -> None:
    # Both are needed: the list alone would allow training without a scaler.
    changes.extend_constant(module.Accelerator.__init__, ("xpu", "cuda", "npu"), device_name())
    changes.replace_function(module, "get_grad_scaler", _with_scaler)


def _with_scaler(before: Any) -> Any:
    def get_grad_scaler(distributed_type: Any = None, **options: Any) -> Any:
        scaler = before(distributed_type, **options)
        # The scaler is CUDA's, which is disabled on a machine without CUDA.
        if type(scaler) is torch.amp.GradScaler and not scaler.is_enabled():
            return torch.amp.GradScaler(device_name(), **options)
        return scaler

    return get_grad_scaler


def _add_memory(module: Any, changes: Changes) -> None:
    changes.replace_function(module, "get_max_memory", _with_device_memory)


def _with_device_memory(before: Any) -> Any:
    def get_max_memory(max_memory: Any = None) -> Any:
        found = before(max_memory)
        if max_memory is not None or any(isinstance(key, int) for key in found):
            return found
        device_module = torch.get_device_module(device_name())
        free = {
            index: device_module.mem_get_info(index)[0]
            for index in range(torch.accelerator.device_count())
        }
        if all(device_module.get_device_properties(i).host_access == "coherent" for i in free):
            found.pop("cpu", None)  # host and device share memory, which would count twice
        return free | found

    return get_max_memory


LIBRARY = Library(
    name="accelerate",
    distribution="accelerate",
    tried="1.15.0",
    places=(
        Place("the default device", None, _set_variable),
        Place('mixed_precision="fp16"', "accelerate.accelerator", _allow_float16),
        Place('device_map="auto"', "accelerate.utils.modeling", _add_memory),
    ),
)
