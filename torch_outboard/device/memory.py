"""Memory of the devices: statistics, limits, the cache and its history. All sizes are in bytes.

The history is in the format of PyTorch's memory viewer. Its functions have the names and arguments
of `torch.cuda.memory`. Their results are input for https://pytorch.org/memory_viz and for the
functions of `torch.cuda._memory_viz`.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from torch_outboard import _C
from torch_outboard.columns import columns, readable_bytes
from torch_outboard.device.devices import DeviceLike, _lazy_init, device_index, is_initialized

__all__ = [
    "MemPool",
    "empty_cache",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def empty_cache() -> None:
    """Frees unused cached memory. Does nothing before the first use."""
    if is_initialized():
        torch.accelerator.empty_cache()


def _of_accelerator(function: Callable[[int], Any]) -> Callable[..., Any]:
    """A function of `torch.accelerator` that takes the device as torch.cuda's functions do."""

    @functools.wraps(function)
    def call(device: DeviceLike = None) -> Any:
        return function(_checked_index(device))

    return call


memory_stats = _of_accelerator(torch.accelerator.memory_stats)
memory_allocated = _of_accelerator(torch.accelerator.memory_allocated)
max_memory_allocated = _of_accelerator(torch.accelerator.max_memory_allocated)
memory_reserved = _of_accelerator(torch.accelerator.memory_reserved)
max_memory_reserved = _of_accelerator(torch.accelerator.max_memory_reserved)
reset_peak_memory_stats = _of_accelerator(torch.accelerator.reset_peak_memory_stats)
reset_accumulated_memory_stats = _of_accelerator(torch.accelerator.reset_accumulated_memory_stats)


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Statistics of the allocator as nested dictionaries; empty before the first use."""
    index = _checked_index(device)
    if not is_initialized():
        return {}
    return torch._C._accelerator_getDeviceStats(index)


def host_memory_stats() -> OrderedDict[str, int]:
    """Statistics of the pinned memory of the host, with the keys of torch.cuda.host_memory_stats.

    Bytes, numbers of blocks, and microseconds; empty before the first use.
    """
    flat: dict[str, int] = {}
    for name, value in host_memory_stats_as_nested_dict().items():
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": number for key, number in value.items()})
        else:
            flat[name] = value
    return OrderedDict(sorted(flat.items()))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The values of `host_memory_stats` as nested dictionaries; empty before the first use."""
    return _C.pinned_memory_stats() if is_initialized() else {}


def reset_peak_host_memory_stats() -> None:
    """Resets the peaks of the pinned memory to the current values."""
    _C.reset_peak_pinned_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Sets the accumulated statistics of the pinned memory to zero."""
    _C.reset_accumulated_pinned_memory_stats()


def ipc_collect() -> None:
    """Releases storages shared with other processes that this process no longer uses."""
    from torch_outboard.device import sharing

    sharing.forget_expired()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total memory of a device in bytes, as the driver reports."""
    _lazy_init()
    free, total = torch.accelerator.get_memory_info(device_index(device))
    return free, total


class MemPool:
    """A private memory pool for the allocations inside `use_mem_pool`.

    `empty_cache` frees its memory once the pool and all its tensors are deleted.
    """

    def __init__(self) -> None:
        _lazy_init()
        # The pool's number, as in the segments of `snapshot`.
        self.id = _C.create_memory_pool()
        self._uses: list[int] = []

    def snapshot(self) -> list[dict[str, Any]]:
        """The segments of this pool, on all devices."""
        return _C.memory_snapshot(self.id)

    def __del__(self) -> None:
        for index in getattr(self, "_uses", ()):
            _C.release_memory_pool(index, self.id)


@contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Allocates this thread's memory on a device from a pool.

    Args:
        pool: the pool for allocations until the context ends.
        device: the device; the current one by default.
    """
    _lazy_init()
    index = device_index(device)
    _C.check_device_index(index)
    _C.begin_allocate_to_pool(index, pool.id)
    pool._uses.append(index)
    try:
        yield
    finally:
        _C.end_allocate_to_pool(index, pool.id)


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The allocator's segments and their blocks, of all devices.

    Args:
        mempool_id: only segments of this private pool, such as the pool of a graph.
    """
    _lazy_init()
    return _C.memory_snapshot(mempool_id or (0, 0))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limits this process to a fraction of a device's memory; beyond it, allocation raises.

    Args:
        fraction: of the total memory, in [0, 1].
        device: the device; the current one by default.

    Raises:
        TypeError: if the fraction is not a float. As on CUDA, an int is an error: write 1.0.
        ValueError: if it is not in [0, 1].
    """
    if not isinstance(fraction, float):
        raise TypeError(
            f"Invalid type for fraction argument, must be `float`: {fraction!r} was given, of type "
            f"{type(fraction).__name__}; write 1.0 for all memory"
        )
    if not 0 <= fraction <= 1:
        raise ValueError(
            f"Invalid fraction value: {fraction}. Allowed range: 0~1; write 0.5 for half of the "
            "memory"
        )
    _lazy_init()
    _C.set_memory_fraction(fraction, device_index(device))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """The limit set by `set_per_process_memory_fraction`: a fraction of the memory, in [0, 1]."""
    _lazy_init()
    return _C.memory_fraction(device_index(device))


# Key in the statistics, title, and formatter of values.
_SUMMARY_ROWS: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("allocated_bytes", "Allocated memory", readable_bytes),
    ("active_bytes", "Active memory", readable_bytes),
    ("reserved_bytes", "Reserved memory", readable_bytes),
    ("inactive_split_bytes", "Not releasable", readable_bytes),
    ("allocation", "Allocations", str),
    ("active", "Active allocations", str),
    ("segment", "Segments", str),
    ("inactive_split", "Not releasable", str),
)


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a table for people.

    Args:
        device: the device; the current one by default.
        abbreviated: leaves out the two pools.
    """
    index = _checked_index(device)
    stats = memory_stats(index)
    pools = [("all", "")]
    if not abbreviated:
        pools += [("large_pool", "  large pool"), ("small_pool", "  small pool")]
    kinds = ("current", "peak", "allocated", "freed")
    counts = f"retries: {stats.get('num_alloc_retries', 0)}, OOMs: {stats.get('num_ooms', 0)}"
    rows: list[tuple[str, ...]] = [("", *kinds)]
    for key, title, readable in _SUMMARY_ROWS:
        for pool, indented in pools:
            values = (readable(stats.get(f"{key}.{pool}.{kind}", 0)) for kind in kinds)
            rows.append((indented or title, *values))
    return f"Memory of device {index}; {counts}\n{columns(rows, right=range(1, 5))}"


def _checked_index(device: DeviceLike) -> int:
    index = device_index(device)
    if is_initialized():
        _C.check_device_index(index)
    return index


# ---- History; the internal names of torch.cuda.memory, for programs that record it

Record = Literal["state", "all"] | None
Context = Literal["state", "alloc", "all"] | None


def _record_memory_history(
    enabled: Record = "all",
    context: Context = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: object = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] | None = None,
) -> None:
    """Starts or stops recording the allocator's events on all devices, with their stacks.

    Args:
        enabled: `"all"` records every event, `"state"` only the origin of the memory in use, `None`
            stops. Events are kept until the next start with `clear_history`.
        context: the recorded stacks: none, of memory in use (`"state"`), also of events that
            allocate memory (`"alloc"`), or of all events.
        stacks: `"all"` includes C++ frames.
        max_entries: the largest number of recorded events; the oldest are dropped first.
        device: for programs written for CUDA; all devices are recorded.
        clear_history: drops earlier events.
        compile_context: for programs written for CUDA; nothing is added.
        global_record_annotations: for programs written for CUDA; nothing is added.
        skip_actions: events that are not recorded, such as `["free_requested"]`.

    Raises:
        ValueError: for another value of `enabled`, `context` or `stacks`, a negative number of
            events, or an action that does not exist.
    """
    if isinstance(enabled, bool):
        raise TypeError(
            "`_record_memory_history` takes no bool, which is CUDA's older form; pass 'all', "
            "'state' or None"
        )
    if enabled is None:
        _C.stop_memory_history()
        return
    if enabled not in ("state", "all"):
        raise ValueError(f"`enabled` is 'state', 'all' or None, and {enabled!r} was given")
    if stacks not in ("python", "all"):
        raise ValueError(f"`stacks` is 'python' or 'all', and {stacks!r} was given")
    if max_entries < 0:
        raise ValueError(f"`max_entries` is a number of events, and {max_entries} was given")
    _C.start_memory_history(
        events=enabled == "all",
        context=context or "",
        cpp=stacks == "all",
        most_events=max_entries,
        clear=clear_history,
        skipped=list(skip_actions or ()),
    )


def _snapshot(device: object = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The current memory of all devices, and its recorded history.

    Args:
        device: for programs written for CUDA; the snapshot has all devices.
        augment_with_fx_traces: adds the location in the model to frames of generated code.

    Returns:
        `segments`, as `memory_snapshot()` gives them, with the frames of blocks in use, and
        `device_traces`, for each device the list of its events. Sizes are in bytes, times in
        microseconds since 1970.
    """
    devices = _C.device_count() if _C.driver_initialized() else 0
    snapshot: dict[str, Any] = _C.memory_history(devices)
    snapshot["allocator_settings"] = {}
    snapshot["external_annotations"] = []
    if augment_with_fx_traces:
        from torch.cuda import memory as cuda_memory

        augment = getattr(cuda_memory, "_augment_memory_snapshot_stack_traces", None)
        if augment is None:
            raise NotImplementedError(
                f"PyTorch {torch.__version__} has no FX traces for snapshots; leave "
                "augment_with_fx_traces out"
            )
        snapshot = augment(snapshot)
    return snapshot


def _dump_snapshot(
    filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Writes `_snapshot()` into a file that https://pytorch.org/memory_viz opens."""
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    Path(filename).write_bytes(pickle.dumps(snapshot))


def _set_memory_metadata(metadata: str) -> None:
    """Adds a string to all later events, as `user_metadata`; an empty string ends that."""
    _C.set_memory_metadata(metadata)


def _get_memory_metadata() -> str:
    """The string set by `_set_memory_metadata`."""
    return _C.memory_metadata()
