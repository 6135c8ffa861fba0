"""transformers: `TrainingArguments(bf16=True)` and `pipeline()`.

Upstream, and what is changed:

- `training_args.is_torch_bf16_gpu_available`: true
- `pipelines.base.Pipeline.__init__`: without a device, or with an index, the device instead of the
  CPU

`device_map="auto"`, `Trainer` and `fp16=True` ask accelerate.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes, expect
from torch_outboard.integrations.library import Library, Place


def _allow_bfloat16(module: Any, changes: Changes) -> None:
    changes.replace_function(module, "is_torch_bf16_gpu_available", lambda _: lambda: True)


def _place_pipelines(module: Any, changes: Changes) -> None:
    parameters = inspect.signature(module.Pipeline.__init__).parameters
    expect(
        {"model", "device"} <= set(parameters) and parameters["device"].default is None,
        "Pipeline takes no model and device",
    )
    changes.replace(module.Pipeline, "__init__", _on_device)


def _on_device(before: Any) -> Any:
    signature = inspect.signature(before)

    def __init__(*arguments: Any, **options: Any) -> None:
        call = signature.bind(*arguments, **options)
        device = call.arguments.get("device")
        if device is None and getattr(call.arguments["model"], "hf_device_map", None) is None:
            device = 0
        if isinstance(device, int) and device >= 0:
            call.arguments["device"] = torch.device(device_name(), device)
        before(*call.args, **call.kwargs)

    return __init__


LIBRARY = Library(
    name="transformers",
    distribution="transformers",
    tried="5.23.0",
    places=(
        Place("TrainingArguments(bf16=True)", "transformers.training_args", _allow_bfloat16),
        Place("pipeline() without a device", "transformers.pipelines.base", _place_pipelines),
    ),
    needs=("accelerate",),
)
