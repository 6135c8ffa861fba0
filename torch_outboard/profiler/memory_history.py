"""The allocator's history in the format of PyTorch's memory viewer.

The functions have the names and arguments of `torch.cuda.memory`. Their results are input for
https://pytorch.org/memory_viz and for the functions of `torch.cuda._memory_viz`.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from torch_outboard import _C

Record = Literal["state", "all"] | None
Context = Literal["state", "alloc", "all"] | None

_STACKS = ("python", "all")


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
            "the form of `_record_memory_history` with a bool is CUDA's older one: say 'all', "
            "'state' or None"
        )
    if enabled is None:
        _C.stop_memory_history()
        return
    if enabled not in ("state", "all"):
        raise ValueError(f"`enabled` is 'state', 'all' or None, and {enabled!r} was given")
    if stacks not in _STACKS:
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
                f"PyTorch {torch.__version__} has no traces of FX for a snapshot; take it without"
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
