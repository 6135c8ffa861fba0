"""Compilation of a model's device kernels ahead of its use."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from torch_outboard import _C
from torch_outboard.device.devices import synchronize
from torch_outboard.dispatch import placement
from torch_outboard.state import state

__all__ = ["Prebuilt", "prebuild"]


class Prebuilt(NamedTuple):
    """Numbers of programs that a model needs; a program has several kernels."""

    built: int  # compiled from source
    loaded: int  # loaded from disk


def prebuild(
    model: Callable[..., object], *inputs: object, backward: bool = True, **keywords: object
) -> Prebuilt:
    """Calls a model once, which compiles its device kernels and caches them on disk.

    For a module the call uses a copy on the current device, so parameters, buffers, gradients and
    the states of the random generators stay unchanged. Another callable is called itself.

    Args:
        model: a module, or a function such as a whole training step.
        inputs: its arguments, or structures of them. Tensors may lie on any device.
        backward: whether the gradients of the sum of all floating-point results are computed, too.
        keywords: as `inputs`.

    Raises:
        RuntimeError: if there is no device that compiles.
        Exception: what the model raises.
    """
    device = torch.device(state.name, torch.accelerator.current_device_index())
    _C.load_device_kernels()
    if (failure := _C.compiler_failure(device.index)) is not None:
        raise RuntimeError(f"prebuild needs device kernels, and {device} compiles none: {failure}")

    def on_device(value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(device, copy=True).requires_grad_(value.requires_grad)

    before = _C.program_counts()
    with (
        torch.random.fork_rng([device.index], device_type=state.name),
        placement.use("device", device),
        torch.set_grad_enabled(backward),
    ):
        called = copy.deepcopy(model).to(device) if isinstance(model, nn.Module) else model
        arguments, named = pytree.tree_map(on_device, (inputs, keywords))
        result = called(*arguments, **named)
        if backward:
            _compute_gradients(result)
        synchronize(device)
    _C.flush_disk_cache()
    after = _C.program_counts()
    return Prebuilt(after[0] - before[0], after[1] - before[1])


def _compute_gradients(result: Any) -> None:
    results = [
        value.sum()
        for value in pytree.tree_leaves(result)
        if isinstance(value, torch.Tensor) and value.requires_grad and value.is_floating_point()
    ]
    if results:
        torch.autograd.backward(results)
