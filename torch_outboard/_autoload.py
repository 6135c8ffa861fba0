"""What PyTorch calls at the end of `import torch` (entry point group `torch.backends`).

It registers the device, unless another backend may want PyTorch's one slot for out-of-tree devices
or another accelerator is present and nobody asked for this one: PyTorch prefers the out-of-tree
device as *the* accelerator, so merely being installed would change what such a machine does.
"""

from __future__ import annotations

import sys

from torch_outboard import _activation


def autoload() -> None:
    """Registers the device with PyTorch. Starts nothing and never raises."""
    package = sys.modules.get("torch_outboard")
    if package is None or getattr(package.__spec__, "_initializing", False):
        return  # `import torch_outboard` came first; it activates when PyTorch is complete
    try:
        stay_away = _activation.reason_to_stay_away() is not None
    except Exception:
        stay_away = True
    if not stay_away:
        _activation.activate()
        return
    # A later `import torch_outboard` shall run the package again and activate it.
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch_outboard"]:
        del sys.modules[name]
