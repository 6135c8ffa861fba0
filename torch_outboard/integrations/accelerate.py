"""accelerate, and what chooses its device by it: `transformers.Trainer`, and others.

accelerate asks for devices by name (`PartialState.default_device`), and takes the one that the
environment variable ACCELERATE_TORCH_DEVICE names, if there is one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings

from torch_outboard import device_name

VARIABLE = "ACCELERATE_TORCH_DEVICE"


def enable() -> bool:
    """Sets the variable, unless it is set. Returns whether accelerate is installed.

    Warns if accelerate has chosen a device already.
    """
    if importlib.util.find_spec("accelerate") is None:
        return False
    os.environ.setdefault(VARIABLE, device_name())
    module = sys.modules.get("accelerate.state")
    chosen = getattr(module, "PartialState", None)
    device = chosen._shared_state.get("device") if chosen is not None else None
    if device is not None and device.type != os.environ[VARIABLE].partition(":")[0]:
        warnings.warn(
            f"accelerate has chosen {device} already; enable its integration before the first "
            "Accelerator, Trainer or TrainingArguments is made",
            stacklevel=3,
        )
    return True
