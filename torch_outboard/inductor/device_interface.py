"""The device for PyTorch's compiler and its code: streams, events, properties, a guard."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface

from torch_outboard import _C
from torch_outboard.device import device_module
from torch_outboard.state import state

# Work items that PyTorch's heuristics are to think of as running together.
_ITEMS_PER_PROCESSOR = 2048
_LEAST_WARP = 32


class _Properties:
    """Of a device, under the names that heuristics of Inductor ask for."""

    def __init__(self, device: Any) -> None:
        properties = device_module.get_device_properties(device)
        self.name = properties.name
        self.multi_processor_count = max(1, properties.multi_processor_count)
        self.max_threads_per_multi_processor = _ITEMS_PER_PROCESSOR
        # Splits of reductions are chosen by it; processors say 1.
        self.warp_size = max(_LEAST_WARP, properties.subgroup_size)
        self.total_memory = properties.total_memory


class OutboardInterface(DeviceInterface):
    """The device of this process; methods are those of the base class."""

    device = device_module.device
    Event = torch.Event
    Stream = device_module.Stream

    class Worker:
        """Runs in processes that compile; they ask the parent's device."""

        set_device = staticmethod(device_module.set_device)
        current_device = staticmethod(device_module.current_device)

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return _Properties(device)

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

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        torch.accelerator.set_stream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return device_module.current_stream(device_idx).stream_id

    @staticmethod
    def get_device_properties(device: Any = None) -> Any:
        return _Properties(device)

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        """The key of generated code: name of the device and version of its driver."""
        properties = device_module.get_device_properties(device)
        return f"{state.name} {properties.name} {properties.driver_version}"

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        # Kernels compute in single precision and round; Inductor refuses graphs otherwise.
        return True

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_gpu() -> bool:
        """Asked from PyTorch 2.15 on; see pytorch_patches.be_a_gpu."""
        return True

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False


class DeviceGuard:
    """Makes a device current, and at its end the one that was."""

    __slots__ = ("index", "previous")

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        self.previous = _C.exchange_device(self.index)

    def __exit__(self, *error: object) -> None:
        _C.exchange_device(self.previous)
