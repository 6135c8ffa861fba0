"""Counts of kernel launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def launches(device: torch.device, call: Callable[[], object]) -> Counter[str]:
    """Kernels that the second of two calls launches, by name; copies count by theirs."""
    synchronize = torch.get_device_module(device).synchronize
    call()
    synchronize()
    with profile(activities=[ProfilerActivity.PrivateUse1]) as profiled:
        call()
        synchronize()
    kind = torch.autograd.DeviceType.PrivateUse1
    return Counter(event.name for event in profiled.events() if event.device_type == kind)
