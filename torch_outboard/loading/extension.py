"""The native part of the package: whether it can be loaded with the PyTorch at hand."""

from __future__ import annotations

import importlib

import torch

from torch_outboard.paths import PACKAGE


def load_extension(device: str) -> str | None:
    """Imports the native part; returns why it cannot be used, None if it can."""
    # One that was built for another PyTorch may load all the same, and crash later.
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
    """Major and minor version of the PyTorch that the native part was built with, where noted."""
    try:
        return (PACKAGE / "lib" / "torch_version.txt").read_text().strip()
    except OSError:
        return None
