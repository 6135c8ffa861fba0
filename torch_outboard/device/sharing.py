"""Device tensors in other processes.

The first time a tensor is sent, its storage moves into memory that processes can share: host memory
on devices that can adopt host memory, else device memory if the driver can export it. Sender and
receivers then work on the same bytes, as with CPU tensors; the bytes are alive until the last
process releases them. A receiver must be a process that can use the device: start it with "spawn"
or "forkserver". The work of two processes is unordered: synchronize before notifying the receiver.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any, NoReturn

import torch
from torch.multiprocessing import reductions

from torch_outboard import _C
from torch_outboard.device.devices import _lazy_init
from torch_outboard.state import state

# Device storages by the underlying CPU storage or file, and the device, so that a storage sent
# twice arrives as one storage.
_device_storages: dict[tuple[int, ...], reductions.StorageWeakRef] = {}


def reduce_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., object], tuple[Any, ...]]:
    """The function and arguments that rebuild a device storage in another process.

    Raises:
        RuntimeError: if the device can neither work on shared memory of the host nor export its
            own, or this is a forked child that cannot use the device. A queue pickles in its own
            thread, where errors are lost: in that case the receiver raises.
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
        if _C.shares_with_processes():
            return _export_storage(storage, index)
        raise RuntimeError(
            f"tensors on '{storage.device}' cannot be shared with other processes, because this "
            "device cannot work on the host's shared memory, and its driver cannot share the "
            "device's; send tensor.cpu() instead"
        )
    host = _C.adopted_cpu_storage(storage)
    if host is None or not host.is_shared():
        host = torch.UntypedStorage._new_shared(storage.nbytes())
        _C.move_to_cpu_storage(storage, host)
    _C.synchronize_device(index)
    _remember((host._cdata, index), storage)
    rebuild, arguments = reductions.reduce_storage(host)
    return rebuild_storage, (rebuild, arguments, index)


def rebuild_storage(
    rebuild: Callable[..., torch.UntypedStorage], arguments: tuple[Any, ...], index: int
) -> torch.UntypedStorage:
    """Rebuilds, in the receiver, a storage from `reduce_storage`."""
    _lazy_init()
    host = rebuild(*arguments)
    return _storage_of((host._cdata, index), lambda: _C.adopt_cpu_storage(host, index))


def _export_storage(
    storage: torch.UntypedStorage, index: int
) -> tuple[Callable[..., object], tuple[Any, ...]]:
    if storage.nbytes() == 0:
        return _empty_storage, (index,)
    descriptor, data = _C.export_storage(storage)
    try:
        _remember(_file_key(descriptor, index), storage)
        # Keeps the memory alive in transit, even if this process releases it.
        sent = reduction.DupFd(descriptor)
    finally:
        os.close(descriptor)
    return import_storage, (sent, storage.nbytes(), data, index)


def import_storage(sent: Any, size: int, data: bytes, index: int) -> torch.UntypedStorage:
    """Imports, in the receiver, exported device memory of `size` bytes."""
    _lazy_init()
    descriptor = sent.detach()
    try:
        key = _file_key(descriptor, index)
        return _storage_of(key, lambda: _C.import_storage(index, descriptor, size, data))
    finally:
        os.close(descriptor)


def _empty_storage(index: int) -> torch.UntypedStorage:
    _lazy_init()
    return torch.UntypedStorage(0, device=torch.device(state.name, index))


def _file_key(descriptor: int, index: int) -> tuple[int, ...]:
    file = os.fstat(descriptor)
    return file.st_dev, file.st_ino, index


def forget_expired() -> None:
    """Removes the entries of deleted storages."""
    for key in [key for key, reference in _device_storages.items() if reference.expired()]:
        del _device_storages[key]


def _storage_of(
    key: tuple[int, ...], make: Callable[[], torch.UntypedStorage]
) -> torch.UntypedStorage:
    """The known storage, or a new one."""
    known = _device_storages.get(key)
    if known is not None and not known.expired():
        return torch.UntypedStorage._new_with_weak_ptr(known.cdata)
    storage = make()
    _remember(key, storage)
    return storage


def _remember(key: tuple[int, ...], storage: torch.UntypedStorage) -> None:
    forget_expired()
    _device_storages[key] = reductions.StorageWeakRef(storage)
