"""The device module, `torch.<name>`: the names of torch.cuda that make sense for any device."""

from __future__ import annotations

import atexit
import sys
from typing import Any

from torch_outboard import (
    _C,
    _pytorch_workarounds,
    amp,
    legacy_storage,
    memory,
    random,
    serialization,
    streams,
)
from torch_outboard.amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_outboard.devices import (
    _exchange_device,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    is_bf16_supported,
    set_device,
    synchronize,
)
from torch_outboard.lazy_init import _is_in_bad_fork, _lazy_call, _lazy_init, init, is_initialized
from torch_outboard.memory import (
    MemPool,
    empty_cache,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from torch_outboard.random import (
    _get_generator,
    _get_rng_state_offset,
    _set_rng_state_offset,
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_outboard.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "ExternalStream",
    "MemPool",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "init",
    "initial_seed",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
    "use_mem_pool",
]

# Read by PyTorch, or by programs that know torch.cuda well; not for users.
_FOR_PYTORCH = (
    _exchange_device,
    _get_generator,
    _get_rng_state_offset,
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    _maybe_exchange_device,
    _set_rng_state_offset,
)


def __getattr__(name: str) -> Any:
    # Activation checkpointing keeps the state of the generators only if this is true.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def finish_registration(name: str) -> None:
    """Registers what belongs to the device outside of its module; `name` is the device's."""
    # Registered now, so that it runs after what programs register.
    atexit.register(_C.finalize_driver)
    _pytorch_workarounds.install()
    serialization.register()
    _C.register_graphs()
    globals().update(legacy_storage.make_classes(name))
    # Makes `import torch.<name>.memory` and the like work.
    parts = {"amp": amp, "memory": memory, "random": random, "streams": streams}
    for part, module in parts.items():
        sys.modules[f"torch.{name}.{part}"] = module
