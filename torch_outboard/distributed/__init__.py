"""The backend `outboard` of torch.distributed, for communication of the device.

It is registered when PyTorch is imported, so `init_process_group()` finds it by the device. Without
communication by the driver it uses PyTorch's Gloo; csrc/distributed describes how.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from torch_outboard import _C, settings

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend

NAME = "outboard"


def register(device: str) -> bool:
    """Registers the backend for a device. Returns whether this PyTorch is built with Gloo."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed import Backend, is_gloo_available

    if not is_gloo_available() or not hasattr(_C, "ProcessGroup"):
        return False
    if NAME not in Backend.backend_list:
        Backend.register_backend(NAME, _create, extended_api=True, devices=[device])
    return True


def operation_counts(group: Any = None) -> dict[str, dict[str, int]]:
    """Counts of a group's operations on the device, by implementation.

    Args:
        group: a process group; None: the default one.

    Returns:
        By operation: the numbers of calls by "driver", the driver's communication, and "gloo".
    """
    taken: dict[str, dict[str, int]] = _backend(group)._taken()
    return taken


def why_not_by_driver(group: Any = None) -> str:
    """The reason why the driver does not communicate for a group; empty if it does."""
    reason: str = _backend(group)._reason
    return reason


def _backend(group: Any) -> Any:
    group = group or torch.distributed.group.WORLD
    return group._get_backend(torch.accelerator.current_accelerator())


def _create(options: Any, backend_options: Any = None) -> Backend:
    """Makes a group's backend from torch.distributed's options of the group."""
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed import ProcessGroupGloo

    settings.read("OUTBOARD_COMMUNICATION")  # raises for an invalid value
    # After a restart by an elastic agent its store still has the addresses of the old workers.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"attempt{attempt}", options.store)
    cpu_backend = ProcessGroupGloo(
        store, options.group_rank, options.group_size, timeout=options.timeout
    )
    # Split groups read their ranks from these options.
    ranks = options.global_ranks_in_group or list(range(options.group_size))
    cpu_backend.options.global_ranks_in_group = ranks
    return _C.ProcessGroup(cpu_backend, store, options.group_id, options.timeout)
