"""Names and numbers of launched kernels."""

from collections import Counter
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from torch_outboard import _C


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


def timed_launches(device: torch.device) -> list[str]:
    """Kernels since this was last asked, by name; for tests with the fixture `timed`."""
    torch.get_device_module(device).synchronize(device)
    return [row[0] for row in _C.testing.take_launch_times()]


def launched(device: torch.device) -> set[str]:
    return set(timed_launches(device))


def is_processor(device: torch.device) -> bool:
    """Whether kernels have the forms of processors, and not those of GPUs."""
    return bool(_C.device_properties(device.index).kind == "cpu")
