"""The one place that changes PyTorch itself, each entry with its reason and when it can go."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

import torch
from torch.multiprocessing import reductions

from torch_outboard import _activation


def share_storages_between_processes() -> None:
    """Lets torch.multiprocessing send storages of the device.

    Reason: `torch.multiprocessing.reductions.reduce_storage` knows CUDA and CPU; for any other
    device it calls `_share_fd_cpu_`, which fails. There is no hook for a backend.
    Where: torch/multiprocessing/reductions.py, `init_reductions`.
    Can go: when PyTorch asks the device module how to reduce a storage.
    """
    reduction.register(torch.UntypedStorage, _reduce_storage)


def _reduce_storage(
    storage: torch.UntypedStorage,
) -> tuple[Callable[..., object], tuple[Any, ...]]:
    if storage.device.type != _activation.state.name:
        return reductions.reduce_storage(storage)
    from torch_outboard import multiprocessing

    return multiprocessing.reduce_storage(storage)


def install() -> None:
    """Installs all of them, once."""
    share_storages_between_processes()
