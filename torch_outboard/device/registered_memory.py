"""Memory of CPU tensors that is pinned in place, so that transfers need no staging copy."""

from __future__ import annotations

import torch

from torch_outboard import _C
from torch_outboard.device.lazy_init import _lazy_init


def register_host_memory(tensor: torch.Tensor) -> bool:
    """Pins the memory of a CPU tensor in place, as `cudaHostRegister` does.

    Afterwards copies with `non_blocking=True` from and to it are asynchronous, and `is_pinned()` is
    true for every tensor on the same storage. The memory is alive until `unregister_host_memory`.

    Returns:
        False if the driver cannot pin it: copies stay correct, and `tensor.pin_memory()` makes
        pinned memory to copy into.

    Raises:
        ValueError: if the tensor is not on the CPU, not strided, empty, or pinned already.
    """
    _lazy_init()
    return _C.register_host_memory(_storage(tensor))


def unregister_host_memory(tensor: torch.Tensor) -> None:
    """Unpins memory pinned by `register_host_memory`, after synchronizing all devices.

    Raises:
        ValueError: if the memory of the tensor was not registered.
    """
    _C.unregister_host_memory(_storage(tensor))


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    if tensor.layout is not torch.strided:
        raise ValueError(f"memory of strided tensors can be pinned, not of {tensor.layout}")
    return tensor.untyped_storage()
