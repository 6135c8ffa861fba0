"""Entry point that PyTorch calls at the end of `import torch` (group `torch.backends`).

It registers the device. Without an explicit request it does not if another backend may need
PyTorch's one slot for out-of-tree devices, or if another accelerator is present: PyTorch prefers
the out-of-tree device, so a mere installation would change the accelerator of such a machine.
"""

from __future__ import annotations

import os
import sys
from os.path import exists

import torch

from torch_outboard.loading import activation


def autoload() -> None:
    """Registers the device with PyTorch. Does not initialize it and never raises."""
    package = sys.modules.get("torch_outboard")
    if package is None or getattr(package.__spec__, "_initializing", False):
        return  # `import torch_outboard` came first; it activates when PyTorch is complete
    try:
        stay_away = reason_to_stay_away() is not None
    except Exception:
        stay_away = True
    if not stay_away:
        activation.activate()
        return
    # Removed, so that a later `import torch_outboard` runs the package again and activates it.
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch_outboard"]:
        del sys.modules[name]


def reason_to_stay_away() -> str | None:
    """The reason why the device needs an explicit request to register; None if it needs none."""
    if os.environ.get("OUTBOARD_DRIVER"):
        return None
    if other := _accelerator_present():
        return (
            f"this machine has {other}, and PyTorch would prefer this device as the accelerator; "
            f"import torch_outboard or set OUTBOARD_DRIVER to use it anyway"
        )
    if others := _other_backends():
        return (
            f"another PyTorch backend is installed ({', '.join(others)}), and PyTorch has one slot "
            f"for out-of-tree devices; import torch_outboard or set OUTBOARD_DRIVER to use this "
            "one"
        )
    return None


# Device files that reveal an accelerator without a call of its driver.
_CUDA_FILES = ("/dev/nvidiactl", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
_XPU_FILES = ("/dev/dri", "/dev/dxg")


def _accelerator_present() -> str | None:
    accelerators = (
        ("CUDA", torch.backends.cuda.is_built(), _CUDA_FILES),
        ("XPU", torch.xpu._is_compiled(), _XPU_FILES),
    )
    found = (name for name, built, files in accelerators if built and any(map(exists, files)))
    return next(found, None)


def _other_backends() -> list[str]:
    from importlib.metadata import entry_points

    found = entry_points(group="torch.backends")
    return sorted({e.name for e in found if not e.value.startswith("torch_outboard.")})
