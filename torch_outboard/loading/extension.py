"""Import of the native part of the package, with a check of the installed PyTorch."""

from __future__ import annotations

import importlib

import torch

from torch_outboard.state import PACKAGE


def load_extension(device: str) -> str | None:
    """Imports the native part; returns the reason why it cannot be used, or None."""
    # A native part built for another PyTorch may load without an error and crash later.
    built_for = _built_for()
    if built_for not in (None, ".".join(torch.__version__.split(".")[:2])):
        return (
            f"The device '{device}' cannot be used, because torch_outboard was built for PyTorch "
            f"{built_for} and this is PyTorch {torch.__version__}; install torch=={built_for}.* or "
            "build torch_outboard again with this one."
        )
    try:
        importlib.import_module("torch_outboard._C")
    except ImportError as error:
        return (
            f"The device '{device}' cannot be used, because the native part of torch_outboard does "
            f"not load with PyTorch {torch.__version__} ({error}); build torch_outboard again for "
            "this PyTorch and Python."
        )
    return None


def _built_for() -> str | None:
    """Major and minor version of PyTorch that the native part was built with, if recorded."""
    try:
        return (PACKAGE / "lib" / "torch_version.txt").read_text().strip()
    except OSError:
        return None
