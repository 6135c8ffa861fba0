"""fastai: where `DataLoaders` put batches, and learners their models.

Upstream, and what is changed:

- `torch_core.default_device`: the device instead of the CPU, unless the CPU was asked for
- `callback.fp16.MixedPrecision.before_fit`: autocast and scaler of the device instead of CUDA's
"""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes, expect
from torch_outboard.integrations.library import Library, Place


def _choose_device(module: Any, changes: Changes) -> None:
    expect(hasattr(module.defaults, "use_cuda"), "there is no defaults.use_cuda")

    def make(before: Any) -> Any:
        def default_device(use: Any = -1) -> torch.device:
            found: torch.device = before(use)
            if found.type == "cpu" and module.defaults.use_cuda is not False:
                return torch.device(device_name(), torch.accelerator.current_device_index())
            return found

        return default_device

    changes.replace_function(module, "default_device", make)


def _autocast(module: Any, changes: Changes) -> None:
    changes.replace_constant(module.MixedPrecision.before_fit, "cuda", device_name())


LIBRARY = Library(
    name="fastai",
    distribution="fastai",
    tried="2.8.12",
    places=(
        Place("the default device", "fastai.torch_core", _choose_device),
        Place("mixed precision", "fastai.callback.fp16", _autocast),
    ),
)
