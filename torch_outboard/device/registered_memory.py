"""Memory of CPU tensors that is pinned where it lies, so that transfers need no copy."""

from __future__ import annotations

import torch

from torch_outboard import _C
from torch_outboard.device.lazy_init import _lazy_init


def register_host_memory(tensor: torch.Tensor) -> bool:
    """Makes the memory of a CPU tensor pinned where it lies, as `cudaHostRegister` does.

    Copies with `non_blocking=True` from and to it are asynchronous then, and `is_pinned()` is true
    of every tensor on the same storage. The memory is kept until `unregister_host_memory`.

    Returns:
        False if the driver cannot: copies stay correct, and `tensor.pin_memory()` makes pinned
        memory to copy into.

    Raises:
        ValueError: if the tensor is not on the CPU, not strided, empty, or pinned already.
    """
    _lazy_init()
    return _C.register_host_memory(_storage(tensor))


def unregister_host_memory(tensor: torch.Tensor) -> None:
    """Ends what `register_host_memory` began, after waiting for all devices.

    Raises:
        ValueError: if the memory of the tensor was not registered.
    """
    _C.unregister_host_memory(_storage(tensor))


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    if tensor.layout is not torch.strided:
        raise ValueError(f"memory of strided tensors can be pinned, not of {tensor.layout}")
    return tensor.untyped_storage()
