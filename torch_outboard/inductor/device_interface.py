"""The device's interface to PyTorch's compiler: streams, events, properties, a device guard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface

from torch_outboard import _C
from torch_outboard.device import device_module
from torch_outboard.state import state

# Resident work-items per compute unit that PyTorch's heuristics assume.
_ITEMS_PER_PROCESSOR = 2048
_LEAST_WARP = 32


def _properties(device: Any = None) -> Any:
    """Properties of a device, under the names that Inductor's heuristics use."""
    properties = device_module.get_device_properties(device)
    return SimpleNamespace(
        name=properties.name,
        multi_processor_count=max(1, properties.multi_processor_count),
        max_threads_per_multi_processor=_ITEMS_PER_PROCESSOR,
        # Inductor chooses splits of reductions by it; a processor's sub-group size is 1.
        warp_size=max(_LEAST_WARP, properties.subgroup_size),
        total_memory=properties.total_memory,
    )


class OutboardInterface(DeviceInterface):
    """The devices of this process; the base class describes the methods."""

    device = device_module.device
    Event = torch.Event
    Stream = device_module.Stream

    class Worker:
        """Methods for processes that compile, which query the parent's device."""

        set_device = staticmethod(device_module.set_device)
        current_device = staticmethod(device_module.current_device)
        get_device_properties = staticmethod(_properties)

    current_device = staticmethod(device_module.current_device)
    set_device = staticmethod(device_module.set_device)
    device_count = staticmethod(device_module.device_count)
    is_available = staticmethod(device_module.is_available)
    stream = staticmethod(device_module.stream)
    current_stream = staticmethod(device_module.current_stream)
    set_stream = staticmethod(device_module.set_stream)
    synchronize = staticmethod(device_module.synchronize)
    memory_allocated = staticmethod(device_module.memory_allocated)
    exchange_device = staticmethod(device_module._exchange_device)
    maybe_exchange_device = staticmethod(device_module._maybe_exchange_device)
    get_device_properties = staticmethod(_properties)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        torch.accelerator.set_stream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return device_module.current_stream(device_idx).stream_id

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        """A key that differs between devices that cannot share generated code."""
        properties = device_module.get_device_properties(device)
        return f"{state.name} {properties.name} {properties.driver_version}"

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        # Kernels compute in single precision and round; Inductor refuses graphs otherwise.
        return True

    @staticmethod
    def is_gpu() -> bool:
        """PyTorch calls it from 2.15 on; see pytorch_patches.be_a_gpu."""
        return True


class DeviceGuard:
    """Makes a device current; at its end, restores the previous one."""

    __slots__ = ("index", "previous")

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        self.previous = _C.exchange_device(self.index)

    def __exit__(self, *error: object) -> None:
        _C.exchange_device(self.previous)
