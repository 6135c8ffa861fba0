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

    if not is_gloo_available():
        return False
    if NAME not in Backend.backend_list:
        Backend.register_backend(NAME, _create, extended_api=True, devices=[device])
    return True


def _create(options: Any, backend_options: Any = None) -> Backend:
    """A group's backend, from what torch.distributed says of the group."""
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed import ProcessGroupGloo

    from torch_outboard import _C

    # The store of an agent that starts workers again holds the addresses of those before.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"attempt{attempt}", options.store)
    engine = ProcessGroupGloo(
        store, options.group_rank, options.group_size, timeout=options.timeout
    )
    return _C.ProcessGroup(engine, options.group_id)
