"""Memory of the host: shared by host and device tensors, or pinned in place."""

from __future__ import annotations

import torch

from torch_outboard import _C
from torch_outboard.device.devices import DeviceLike, _lazy_init, device_index
from torch_outboard.state import state


def as_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor that shares the memory of a device tensor, without a copy.

    Synchronizes the current stream of the device. Later device work has to be synchronized before
    the host reads its results. The result keeps the memory alive and does not require a gradient.

    Args:
        tensor: a strided tensor of the device, any dtype and shape; CPU tensors are returned
            unchanged.

    Raises:
        NotImplementedError: if host and device do not share memory; copy with `tensor.cpu()`.
        ValueError: if the tensor is on another device, or not strided.
    """
    if tensor.device.type == "cpu":
        return tensor
    storage = _C.host_storage(_storage(tensor, "shared"))
    return _tensor_on(storage, tensor.detach(), torch.device("cpu"))


def from_cpu(tensor: torch.Tensor, device: DeviceLike = None) -> torch.Tensor:
    """A device tensor that shares the memory of a CPU tensor, without a copy.

    Args:
        tensor: a strided CPU tensor, any dtype and shape. It must not be resized afterwards. The
            result keeps its memory alive and does not require a gradient.
        device: the device; the current one by default.

    Raises:
        NotImplementedError: if the device cannot use the host's memory; copy with
            `tensor.to(device)`.
        ValueError: if the tensor is not a strided CPU tensor.
    """
    _lazy_init()
    if tensor.device.type != "cpu":
        raise ValueError(f"a CPU tensor is needed, and one on '{tensor.device}' was given")
    index = device_index(device)
    storage = _C.adopt_cpu_storage(_storage(tensor, "shared"), index)
    return _tensor_on(storage, tensor.detach(), torch.device(state.name, index))


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
    return _C.register_host_memory(_storage(tensor, "pinned"))


def unregister_host_memory(tensor: torch.Tensor) -> None:
    """Unpins memory pinned by `register_host_memory`, after synchronizing all devices.

    Raises:
        ValueError: if the memory of the tensor was not registered.
    """
    _C.unregister_host_memory(_storage(tensor, "pinned"))


def _storage(tensor: torch.Tensor, done: str) -> torch.UntypedStorage:
    if tensor.layout is not torch.strided:
        raise ValueError(f"memory of strided tensors can be {done}, not of {tensor.layout}")
    return tensor.untyped_storage()


def _tensor_on(
    storage: torch.UntypedStorage, like: torch.Tensor, device: torch.device
) -> torch.Tensor:
    result = torch.empty(0, dtype=like.dtype, device=device)
    result.set_(storage, like.storage_offset(), like.size(), like.stride())
    if like.is_conj():
        result = result.conj()
    if like.is_neg():
        result = torch._neg_view(result)
    return result
