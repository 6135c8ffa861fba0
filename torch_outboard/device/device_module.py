"""The device module, `torch.<name>`: the names of torch.cuda that apply to any device."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.device import (
    amp,
    generators,
    graphs,
    legacy_storage,
    legacy_tensors,
    memory,
    streams,
)
from torch_outboard.device.amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_outboard.device.devices import (
    DeviceCapability,
    _exchange_device,
    _maybe_exchange_device,
    can_device_access_peer,
    clock_rate,
    current_device,
    device,
    device_count,
    device_memory_used,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_sync_debug_mode,
    is_available,
    is_bf16_supported,
    is_tf32_supported,
    memory_usage,
    power_draw,
    reset_device,
    set_device,
    set_sync_debug_mode,
    synchronize,
    temperature,
    utilization,
)
from torch_outboard.device.generators import (
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
from torch_outboard.device.graphed_callables import make_graphed_callables
from torch_outboard.device.graphs import (
    Graph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
)
from torch_outboard.device.lazy_init import (
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    init,
    is_initialized,
)
from torch_outboard.device.memory import (
    MemPool,
    empty_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from torch_outboard.device.registered_memory import register_host_memory, unregister_host_memory
from torch_outboard.device.streams import (
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
from torch_outboard.state import state

__all__ = [
    "AcceleratorError",
    "CUDAGraph",
    "DeviceCapability",
    "Event",
    "ExternalStream",
    "Graph",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
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
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "has_half",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
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
    "memory_usage",
    "power_draw",
    "random",
    "register_host_memory",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_device",
    "reset_peak_host_memory_stats",
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
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "unregister_host_memory",
    "use_mem_pool",
    "utilization",
]

# Names of torch.cuda for graphs, generators and errors.
CUDAGraph = Graph
random = generators
AcceleratorError = torch.AcceleratorError
OutOfMemoryError = torch.OutOfMemoryError
has_half = True

# Internal names that PyTorch, or programs that use internals of torch.cuda, read.
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
    # Activation checkpointing saves the state of the generators only if this is true.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


# The types that `tensor.type()` and `tensor.storage_type()` name.
globals().update(legacy_storage.make_classes(state.name))
globals().update(legacy_tensors.make_types(state.name))
