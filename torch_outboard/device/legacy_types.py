"""`torch.<name>.FloatTensor`, `FloatStorage` and the like: legacy types of tensors and storages.

PyTorch makes such types for CPU and CUDA only. Old programs call the types of tensors, compare with
them, and pass them to `tensor.type()`, which reads only the name of a type. They compare the types
of storages, which `tensor.storage_type()` returns; PyTorch's legacy code looks these up in the
device module.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.storage import _dtype_to_storage_type_map, _LegacyStorage


class _LegacyType(type):
    """The metaclass of legacy tensor types. Their instances are tensors."""

    dtype: torch.dtype
    layout = torch.strided
    is_cuda = False
    is_sparse = False
    _device: str

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return cls.__qualname__

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == cls._device
            and (instance.dtype, instance.layout) == (cls.dtype, cls.layout)
        )

    def __call__(cls, *arguments: Any, device: torch.types.Device = None) -> torch.Tensor:
        """An uninitialized tensor of given sizes, or a tensor of given elements.

        Args:
            arguments: nothing, for a tensor without elements; sizes, or one `torch.Size`; a
                sequence, whose elements are copied; a tensor or storage of this type, whose memory
                is shared.
            device: a device of this type; the current one by default.

        Raises:
            TypeError: if a tensor or storage is of another type.
            RuntimeError: if `device` is another kind of device.
        """
        where = torch.device(cls._device if device is None else device)
        if where.type != cls._device:
            raise RuntimeError(
                f"torch.{cls._device}.{cls.__name__} makes tensors of '{cls._device}', and one of "
                f"'{where}' was asked for; use torch.tensor(..., device='{where}')"
            )
        given = arguments[0] if len(arguments) == 1 else None
        if isinstance(given, torch.Tensor):
            if not isinstance(given, cls):
                raise TypeError(_another_type(cls, given.type()))
            return given.detach()
        if isinstance(given, (torch.TypedStorage, torch.UntypedStorage)):
            storage = given if isinstance(given, torch.UntypedStorage) else given._untyped_storage
            dtype = given.dtype if isinstance(given, torch.TypedStorage) else cls.dtype
            if (storage.device.type, dtype) != (cls._device, cls.dtype):
                raise TypeError(_another_type(cls, f"a storage of {dtype} on {storage.device}"))
            return torch.empty(0, dtype=cls.dtype, device=storage.device).set_(storage)
        if given is None or isinstance(given, (int, torch.Size)):
            sizes = given if isinstance(given, torch.Size) else (arguments or (0,))
            return torch.empty(sizes, dtype=cls.dtype, device=where)
        return torch.tensor(given, dtype=cls.dtype, device=where)


def _another_type(cls: _LegacyType, given: str) -> str:
    return (
        f"torch.{cls._device}.{cls.__name__} takes tensors and storages of its own type, and got "
        f"{given}; convert it with .to('{cls._device}', {cls.dtype})"
    )


def make_types(name: str) -> dict[str, type]:
    """The legacy types of the device `name`, by their names in the device module."""
    found: dict[str, type] = {}
    for dtype, storage in _dtype_to_storage_type_map().items():
        if not storage.startswith("Q"):  # quantized
            found[storage] = _make_storage_type(storage, dtype, f"torch.{name}")
            if not dtype.is_complex:
                tensor = storage.replace("Storage", "Tensor")
                found[tensor] = _make_tensor_type(tensor, dtype, name)
    return found


def _make_tensor_type(kind: str, dtype: torch.dtype, name: str) -> type:
    module = f"torch.{name}"
    namespace = {"__module__": module, "__qualname__": kind, "dtype": dtype, "_device": name}
    # `tensor.type()` reads the name with its module.
    return _LegacyType(f"{module}.{kind}", (), namespace)


def _make_storage_type(kind: str, dtype: torch.dtype, module: str) -> type:
    # PyTorch reads the device off the last part of the module's name.
    names = {"__module__": module, "dtype": dtype, "_dtype": dtype}
    return types.new_class(kind, (_LegacyStorage,), exec_body=lambda space: space.update(names))
