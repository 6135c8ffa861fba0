"""Host and device tensors that share memory, on devices that share memory with the host."""

from __future__ import annotations

import torch

from torch_outboard.device.devices import DeviceLike, device_index
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
    from torch_outboard import _C

    if tensor.device.type == "cpu":
        return tensor
    _check_strided(tensor)
    tensor = tensor.detach()
    storage = _C.host_storage(tensor.untyped_storage())
    return _tensor_on(storage, tensor, torch.device("cpu"))


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
    from torch_outboard import _C
    from torch_outboard.device.lazy_init import _lazy_init

    _lazy_init()
    if tensor.device.type != "cpu":
        raise ValueError(f"a CPU tensor is needed, and one on '{tensor.device}' was given")
    _check_strided(tensor)
    tensor = tensor.detach()
    index = device_index(device)
    storage = _C.adopt_cpu_storage(tensor.untyped_storage(), index)
    return _tensor_on(storage, tensor, torch.device(state.name, index))


def _check_strided(tensor: torch.Tensor) -> None:
    if tensor.layout is not torch.strided:
        raise ValueError(f"memory can be shared by strided tensors, not by {tensor.layout}")


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
