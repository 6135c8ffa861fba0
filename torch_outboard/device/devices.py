"""Devices: initialization at their first use, properties, and the current device of this thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_outboard import _C, settings
from torch_outboard.drivers.discovery import SHIPPED_DRIVERS
from torch_outboard.state import state

__all__ = [
    "DeviceCapability",
    "can_device_access_peer",
    "clock_rate",
    "current_device",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_sync_debug_mode",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "memory_usage",
    "power_draw",
    "reset_device",
    "set_device",
    "set_sync_debug_mode",
    "synchronize",
    "temperature",
    "utilization",
]


# Specification of a device: an index, "<name>:1", torch.device; None is the current device.
DeviceLike = int | str | torch.device | None

# c10::DeviceIndex has eight bits.
_MOST_DEVICES = 128

_lock = threading.RLock()
_initialized = False
_queued: list[Callable[[], object]] = []

# Whether this process was forked from a process that had initialized the device.
_is_in_bad_fork = _C.in_bad_fork


def is_initialized() -> bool:
    """Whether the device was used in this process."""
    return _initialized and not _is_in_bad_fork()


def init() -> None:
    """Initializes the driver; PyTorch does so automatically at the first use of the device.

    Raises:
        RuntimeError: if there is no usable driver or no device, with the reason, and in a forked
            child of a process that had used the device.
        ValueError: if a setting in the environment has an invalid value.
    """
    global _initialized
    if _initialized and not _is_in_bad_fork():
        return
    with _lock:
        if is_initialized():
            return
        problem = state.wrong_setting or settings.first_problem(state.name)
        if problem is not None:
            raise ValueError(problem)
        _C.check_device_index(0)
        choice = state.choice
        # The module of an external driver lists its settings.
        if choice is not None and choice.module is not None and choice.name not in SHIPPED_DRIVERS:
            settings.warn_of_unknown(choice.name, choice.module)
        _initialized = True
        while _queued:
            _queued.pop(0)()


_lazy_init = init


def _lazy_call(function: Callable[[], object]) -> None:
    """Calls `function` now if the device is initialized, else at its initialization."""
    with _lock:
        if not is_initialized():
            _queued.append(function)
            return
    function()


def device_index(device: DeviceLike) -> int:
    """The index that `device` stands for.

    Raises:
        ValueError: if `device` is of another type, for example "cpu".
        TypeError: if `device` cannot name a device.
        RuntimeError: if `device` is an index that PyTorch cannot represent.
    """
    if device is None:
        return _C.current_device()
    if isinstance(device, bool) or not isinstance(device, (int, str, torch.device)):
        raise TypeError(
            f"a device is given as an index, a string or a torch.device, not as "
            f"{type(device).__name__}"
        )
    if isinstance(device, int):
        # torch.device would truncate it to the lowest bits.
        if not -_MOST_DEVICES <= device < _MOST_DEVICES:
            raise RuntimeError(
                f"device index {device} was asked for, and PyTorch knows no index above "
                f"{_MOST_DEVICES - 1}"
            )
        return device
    device = torch.device(device)
    name = state.name
    if device.type != name:
        raise ValueError(f"'{device}' was given where a '{name}' device is needed")
    return _C.current_device() if device.index is None else device.index


def is_available() -> bool:
    """Whether there is a usable device. Never raises; `init` raises the reason."""
    return device_count() > 0


def device_count() -> int:
    """Number of devices; 0 if there is no usable driver."""
    return _C.device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    _lazy_init()
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Makes `device` current in this thread. A negative index changes nothing.

    Raises:
        RuntimeError: if there is no such device.
    """
    index = device_index(device)
    if index >= 0:
        _lazy_init()
        _C.set_device(index)


def _exchange_device(device: int) -> int:
    _lazy_init()
    return _C.exchange_device(device)


_maybe_exchange_device = _exchange_device


class device:
    """Context manager that changes the current device.

    Args:
        device: the device to make current; a negative index or None changes nothing.
    """

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx) if self.idx >= 0 else -1

    def __exit__(self, *exc_info: object) -> None:
        if self.prev_idx >= 0:
            _C.exchange_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor or storage current.

    Tensors of other devices change nothing.
    """

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        index = obj.device.index if obj.device.type == state.name else None
        super().__init__(index)


def get_device_name(device: DeviceLike = None) -> str:
    """The name of a device, for people."""
    return get_device_properties(device).name


def get_device_properties(device: DeviceLike = None) -> _C._DeviceProperties:
    """The driver's properties of a device: name, memory in bytes, limits.

    Raises:
        RuntimeError: if there is no such device.
    """
    _lazy_init()
    return _C.device_properties(device_index(device))


class DeviceCapability(tuple[int, int]):
    """A pair of numbers, which programs for torch.cuda compare, and capabilities by name.

    The pair is always (0, 0), which no generation of GPUs has. The capabilities of the device are
    read by name, `capability["kernel_dtypes"]`.
    """

    facts: dict[str, Any]

    def __new__(cls, facts: dict[str, Any]) -> DeviceCapability:
        self = super().__new__(cls, (0, 0))
        self.facts = facts
        return self

    def __getitem__(self, key: Any) -> Any:
        return self.facts[key] if isinstance(key, str) else super().__getitem__(key)

    def keys(self) -> Iterable[str]:
        """The names of the capabilities."""
        return self.facts.keys()

    def __repr__(self) -> str:
        return f"{tuple(self)} {self.facts}"


def get_device_capability(device: DeviceLike = None) -> DeviceCapability:
    """The capabilities of the device's kernels, and the host's access to its memory.

    Any dtype can be stored and copied, and any operator runs; on `kernel_dtypes` operators run on
    the device itself.
    """
    properties = get_device_properties(device)
    facts = {
        "kernel_dtypes": set(properties.dtypes),
        "host_access": properties.host_access,
        "max_work_group_size": properties.max_work_group_size,
        "subgroup_size": properties.subgroup_size,
        "local_memory": properties.local_memory,
    }
    return DeviceCapability(facts)


def device_memory_used(device: DeviceLike = None) -> int:
    """Bytes of a device in use, as far as its driver knows: by all processes, or by this one."""
    _lazy_init()
    free, total = torch.accelerator.get_memory_info(device_index(device))
    return total - free


def _state(field: str, what: str, device: DeviceLike) -> float:
    """A value reported by the driver; NotImplementedError if it does not report it."""
    _lazy_init()
    index = device_index(device)
    known = _C.device_state(index)
    if field not in known:
        raise NotImplementedError(
            f"the {what} of '{state.name}:{index}' was asked for, and its driver does not report "
            "it; use the tools of the device's vendor"
        )
    return known[field]


def utilization(device: DeviceLike = None) -> int:
    """Percentage of the recent time in which the device was busy.

    Raises:
        NotImplementedError: if the driver does not report it, as for temperature, power and clock.
    """
    return round(_state("utilization", "utilization", device))


def memory_usage(device: DeviceLike = None) -> int:
    """Percentage of the recent time in which device memory was read or written."""
    return round(_state("memory_utilization", "memory usage", device))


def temperature(device: DeviceLike = None) -> int:
    """The temperature of a device in degrees Celsius. Raises as `utilization` does."""
    return round(_state("temperature", "temperature", device))


def power_draw(device: DeviceLike = None) -> int:
    """The power that a device draws, in milliwatts. Raises as `utilization` does."""
    return round(1000 * _state("power", "power draw", device))


def clock_rate(device: DeviceLike = None) -> int:
    """The clock rate of a device in MHz. Raises as `utilization` does."""
    return round(_state("clock", "clock rate", device))


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Accepts 0 or "default" only: synchronizations are not reported.

    Raises:
        NotImplementedError: for the other modes of torch.cuda.
        RuntimeError: for anything else.
    """
    if debug_mode in (0, "default"):
        return
    if debug_mode not in (1, 2, "warn", "error"):
        raise RuntimeError("the mode is 'default', 'warn' or 'error', or 0, 1 or 2")
    raise NotImplementedError(
        f"'{state.name}' cannot report where the host waits for the device; "
        "torch_outboard.fallback reports operators that run on the host"
    )


def get_sync_debug_mode() -> int:
    """Always 0: synchronizations are not reported."""
    return 0


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether copies between two devices bypass host memory; other copies go through it."""
    _lazy_init()
    return _C.peer_access(device_index(device), device_index(peer_device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether operators compute in bfloat16; emulation means the host's kernels."""
    return including_emulation or torch.bfloat16 in get_device_capability().facts["kernel_dtypes"]


def is_tf32_supported() -> bool:
    """False: no driver has matrix products in TF32."""
    return False


def synchronize(device: DeviceLike = None) -> None:
    """Waits until all work on all streams of a device is done.

    Raises deferred errors since the last synchronization.
    """
    _lazy_init()
    _C.synchronize_device(device_index(device))


def reset_device(device: DeviceLike = None) -> None:
    """Makes a device usable again after its driver has lost it.

    Streams and events remain valid. Pending work and deferred errors are dropped, and kernels are
    created again at their next use. No other thread may use the device meanwhile.

    Raises:
        RuntimeError: while tensors or captured graphs of the device are alive, or if the device
            cannot be recovered.
        NotImplementedError: if the driver cannot reset devices; restart the process.
    """
    _lazy_init()
    gc.collect()
    _C.reset_device(device_index(device))
