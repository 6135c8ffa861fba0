"""Profiles of device work, and their traces."""

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

# The first range of a process imports modules of PyTorch, and with stacks of Python their names in
# a profile may be memory that was given back, on CPU as well.
with record_function("first"):
    pass

BOTH = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)
# Bytes that the driver copies on every device, also where the host could.
LARGE = 1 << 20
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")

Event = dict[str, Any]


def pinned() -> torch.Tensor:
    return torch.ones(LARGE // 4).pin_memory()


def copy_there(source: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Work for the device on every driver: a copy that is not waited for."""
    return source.to(device, non_blocking=True)


def profiled(work: Callable[[], object], **options: Any) -> profile:
    with profile(activities=options.pop("activities", BOTH), **options) as profiler:
        work()
    return profiler


def trace_of(profiler: profile) -> list[Event]:
    """The events of the trace as a viewer reads them. Times are in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return list(json.loads(path.read_text())["traceEvents"])


def of_category(trace: Iterable[Event], *categories: str) -> list[Event]:
    found = [e for e in trace if e.get("cat") in categories and e["ph"] == "X"]
    return sorted(found, key=lambda event: event["ts"])


def named(trace: Iterable[Event], name: str) -> list[Event]:
    return [e for e in trace if e.get("name") == name and e["ph"] == "X"]


def names_of_lanes(trace: Iterable[Event], device: int) -> dict[int, str]:
    """Labels beside the rows of a device, by stream."""
    return {
        e["tid"]: e["args"]["name"]
        for e in trace
        if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == device
    }
