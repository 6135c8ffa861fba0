"""The communication of the device in torch.distributed: the backend `outboard`.

It is registered when PyTorch is imported, so `init_process_group()` finds it by the device. What it
does between processes is Gloo's, which PyTorch brings; csrc/distributed says how.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend

NAME = "outboard"


def register(device: str) -> bool:
    """Registers the backend for a device. Returns whether this PyTorch is built with Gloo."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed import Backend, is_gloo_available

    from torch_outboard import _C

    if not is_gloo_available() or not hasattr(_C, "ProcessGroup"):
        return False
    if NAME not in Backend.backend_list:
        Backend.register_backend(NAME, _create, extended_api=True, devices=[device])
    return True


def ways(group: Any = None) -> dict[str, dict[str, int]]:
    """How a group's operations on the device were done, and how often.

    Args:
        group: a process group; None: the default one.

    Returns:
        By operation, counts by "driver", for communication of the driver's own, and "gloo".
    """
    taken: dict[str, dict[str, int]] = _backend(group)._taken()
    return taken


def why_not_by_driver(group: Any = None) -> str:
    """Why the driver does not communicate for a group; empty if it does."""
    reason: str = _backend(group)._reason
    return reason


def _backend(group: Any) -> Any:
    group = group or torch.distributed.group.WORLD
    return group._get_backend(torch.accelerator.current_accelerator())


def _create(options: Any, backend_options: Any = None) -> Backend:
    """A group's backend, from what torch.distributed says of the group."""
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed import ProcessGroupGloo

    from torch_outboard import _C

    # The store of an agent that starts workers again holds the addresses of those before.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"attempt{attempt}", options.store)
    cpu_backend = ProcessGroupGloo(
        store, options.group_rank, options.group_size, timeout=options.timeout
    )
    # Groups that are split off look there for the ranks of theirs.
    ranks = options.global_ranks_in_group or list(range(options.group_size))
    cpu_backend.options.global_ranks_in_group = ranks
    return _C.ProcessGroup(cpu_backend, store, options.group_id, options.timeout)
