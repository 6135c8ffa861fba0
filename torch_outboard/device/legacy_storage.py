"""`torch.<name>.FloatStorage` and the like: the classes that `tensor.storage_type()` returns.

PyTorch deprecates typed storages; old programs compare their types, and PyTorch's own legacy code
looks the classes up in the device module.
"""

from __future__ import annotations

import types

import torch
from torch.storage import _dtype_to_storage_type_map, _LegacyStorage


def make_classes(name: str) -> dict[str, type]:
    """The legacy storage classes of the device `name`, by their names in the device module."""
    return {
        class_name: _make_class(class_name, dtype, f"torch.{name}")
        for dtype, class_name in _dtype_to_storage_type_map().items()
        if not class_name.startswith("Q")  # quantized
    }


def _make_class(class_name: str, dtype: torch.dtype, module: str) -> type:
    def fill(namespace: dict[str, object]) -> None:
        # PyTorch reads the device off the last part of the module's name.
        namespace["__module__"] = module
        namespace["dtype"] = namespace["_dtype"] = dtype

    return types.new_class(class_name, (_LegacyStorage,), exec_body=fill)
