"""The device module, `torch.<name>`: the names of torch.cuda that apply to any device.

They are the public names of the modules of this folder, each documented there.
"""

# ruff: noqa: F401, F403

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.device import amp, devices, generators, graphs, legacy_types, memory, streams
from torch_outboard.device.amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_outboard.device.devices import *

# Internal names that PyTorch, or programs that use internals of torch.cuda, read.
from torch_outboard.device.devices import (
    _exchange_device,
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    _maybe_exchange_device,
    is_initialized,
)
from torch_outboard.device.generators import *
from torch_outboard.device.generators import (
    _get_generator,
    _get_rng_state_offset,
    _set_rng_state_offset,
)
from torch_outboard.device.graphs import *
from torch_outboard.device.graphs import Graph
from torch_outboard.device.host_memory import register_host_memory, unregister_host_memory
from torch_outboard.device.memory import *
from torch_outboard.device.streams import *
from torch_outboard.state import state

__all__ = [
    "AcceleratorError",
    "CUDAGraph",
    "OutOfMemoryError",
    "amp",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "graphs",
    "has_half",
    "is_autocast_enabled",
    "memory",
    "random",
    "register_host_memory",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "streams",
    "unregister_host_memory",
]
__all__ += devices.__all__ + generators.__all__ + graphs.__all__ + memory.__all__ + streams.__all__

# Names of torch.cuda for graphs, generators and errors.
CUDAGraph = Graph
random = generators
AcceleratorError = torch.AcceleratorError
OutOfMemoryError = torch.OutOfMemoryError
has_half = True


def __getattr__(name: str) -> Any:
    # Activation checkpointing saves the state of the generators only if this is true.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


# The types that `tensor.type()` and `tensor.storage_type()` name.
globals().update(legacy_types.make_types(state.name))
