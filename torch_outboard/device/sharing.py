"""Device tensors in other processes, on devices that can use any host memory as their own.

The first time a tensor is sent, its storage moves into shared memory; sender and receivers then
work on the same bytes, as with CPU tensors. A receiver must be a process that can use the device:
start it with "spawn" or "forkserver". Nothing orders the work of two processes: synchronize before
telling the other side to look.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.multiprocessing import reductions

from torch_outboard import _C
from torch_outboard.device.lazy_init import _lazy_init

# Device storages by the CPU storage below, so that one storage sent twice arrives as one.
_device_storages: dict[tuple[int, int], reductions.StorageWeakRef] = {}


def reduce_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., object], tuple[Any, ...]]:
    """How to pickle a device storage for another process.

    Raises:
        RuntimeError: if the device cannot work on shared memory of the host, or this is a forked
            child that cannot use the device. A queue pickles in a thread of its own, where nobody
            would hear of it: there, the receiver raises.
    """
    try:
        return _share_storage(storage)
    except RuntimeError as error:
        if threading.current_thread().name != "QueueFeederThread":
            raise
        return _raise_at_receiver, (str(error),)


def _raise_at_receiver(message: str) -> NoReturn:
    raise RuntimeError(f"another process could not send a tensor: {message}")


def _share_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., object], tuple[Any, ...]]:
    index = storage.device.index
    if not _C.adopts_host_memory(index):
        raise RuntimeError(
            f"tensors on '{storage.device}' cannot be shared with other processes, because this "
            "device cannot work on the host's shared memory; send tensor.cpu() instead"
        )
    host = _C.adopted_cpu_storage(storage)
    if host is None or not host.is_shared():
        host = torch.UntypedStorage._new_shared(storage.nbytes())
        _C.move_to_cpu_storage(storage, host)
    _C.synchronize_device(index)
    _remember(host, index, storage)
    rebuild, arguments = reductions.reduce_storage(host)
    return rebuild_storage, (rebuild, arguments, index)


def rebuild_storage(
    rebuild: Callable[..., torch.UntypedStorage], arguments: tuple[Any, ...], index: int
) -> torch.UntypedStorage:
    """The receiving end of `reduce_storage`."""
    _lazy_init()
    host = rebuild(*arguments)
    known = _device_storages.get((host._cdata, index))
    if known is not None and not known.expired():
        storage = torch.UntypedStorage._new_with_weak_ptr(known.cdata)
        if storage is not None:
            return storage
    storage = _C.adopt_cpu_storage(host, index)
    _remember(host, index, storage)
    return storage


def forget_expired() -> None:
    """Drops what is known about storages that are gone."""
    for key in [key for key, reference in _device_storages.items() if reference.expired()]:
        del _device_storages[key]


def _remember(host: torch.UntypedStorage, index: int, storage: torch.UntypedStorage) -> None:
    forget_expired()
    _device_storages[host._cdata, index] = reductions.StorageWeakRef(storage)
