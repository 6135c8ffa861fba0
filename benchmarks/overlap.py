"""The share of communication that the backward pass hides, from a profile of training steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.profiler import profile

# Nanoseconds, first and last.
Span = tuple[int, int]

BACKWARD = "autograd::engine::evaluate_function"
# Names of the device's work on streams, and of Gloo's on CPU tensors.
OF_DEVICE = "ALLREDUCE"
OF_CPU = "gloo:all_reduce"
# Categories of a device's work in a profile.
WORK = ("kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset")


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of spans, in order and without overlaps."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def total(spans: Iterable[Span]) -> int:
    return sum(last - first for first, last in spans)


def common(left: list[Span], right: list[Span]) -> list[Span]:
    """The intersection of two lists of spans without overlaps."""
    found = []
    for first, last in left:
        for begin, end in right:
            if begin < last and first < end:
                found.append((max(first, begin), min(last, end)))
    return found


def hidden_share(step: Callable[[], object], on_device: bool, steps: int = 3) -> float:
    """The part of the time of all_reduce in which the backward pass computes.

    It computes while autograd calls functions and while the device works on the current stream,
    where nothing else goes on beside all_reduce: the optimizer's work waits for it. On a device
    with memory of its own all_reduce counts from the first piece of a bucket to the last, without
    the copies before and after.
    """
    step()
    with profile() as found:
        for _ in range(steps):
            step()
            torch.accelerator.synchronize()
    stream = torch.accelerator.current_stream().stream_id
    communication, compute = [], []
    assert found.profiler is not None
    for event in found.profiler.kineto_results.events():
        span = (event.start_ns(), event.start_ns() + event.duration_ns())
        of_cpu = event.device_type() == torch.autograd.DeviceType.CPU
        if event.name() == (OF_DEVICE if on_device else OF_CPU) and of_cpu != on_device:
            communication.append(span)
        elif event.name().startswith(BACKWARD) or (
            on_device
            and not of_cpu
            and event.activity_type() in WORK
            and event.device_resource_id() == stream
        ):
            compute.append(span)
    communication, compute = merged(communication), merged(compute)
    if not communication:
        raise RuntimeError("no communication is in the profile")
    return total(common(communication, compute)) / total(communication)
