"""Streams and events: PyTorch's generic ones, under the names of torch.cuda."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.device.devices import DeviceLike, _lazy_init, device_index
from torch_outboard.state import state

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_from_external",
    "set_stream",
    "stream",
]


# c10::DeviceType::PrivateUse1, which torch.Stream takes as a number.
_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1.value)


def _device(index: int) -> torch.device:
    return torch.device(state.name, index)


class Stream(torch.Stream):
    """A queue of work on a device; work on one stream runs in order.

    Args:
        device: the device; the current device by default.
        priority: lower numbers are more urgent; clamped to `priority_range()`.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        _lazy_init()
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, _device(device_index(device)), priority=priority)

    @property
    def priority(self) -> int:
        return _C.stream_priority(self.device_index, self.stream_id)

    @staticmethod
    def priority_range(device: DeviceLike = None) -> tuple[int, int]:
        """The least urgent and the most urgent priority of a device."""
        _lazy_init()
        properties = _C.device_properties(device_index(device))
        return properties.least_priority, properties.greatest_priority

    def __repr__(self) -> str:
        return f"<torch.{state.name}.Stream device={self.device} id={self.stream_id}>"

    __hash__ = torch.Stream.__hash__


class ExternalStream(Stream):
    """A stream around an external queue of the driver, which its owner keeps alive.

    Args:
        stream_ptr: the driver's `ob_queue`, as an integer.
        device: the queue's device; the current device by default.
    """

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs: Any) -> ExternalStream:
        _lazy_init()
        index = device_index(device)
        stream_id = _C.external_stream(index, stream_ptr)
        return torch.Stream.__new__(
            cls, stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE
        )


class _EventMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event)


class Event(metaclass=_EventMeta):
    """A point in a stream's work that can be waited for and timed.

    Makes a plain `torch.Event`, because `torch.Event.elapsed_time` refuses subclasses.

    Args:
        enable_timing: whether `elapsed_time`, in milliseconds, is available.
        blocking: accepted for compatibility with torch.cuda; the driver decides how to wait.
        interprocess: not supported.
        device: the device; the current device by default.
    """

    def __new__(  # type: ignore[misc]
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: DeviceLike = None,
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError(
                f"events of '{state.name}' cannot be shared between processes; "
                "synchronize the stream before handing memory over"
            )
        _lazy_init()
        index = device_index(device)
        _C.check_device_index(index)
        return torch.Event(_device(index), enable_timing=enable_timing, blocking=blocking)


def _wrap(index: int, stream_id: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


def current_stream(device: DeviceLike = None) -> Stream:
    """This thread's current stream of a device."""
    _lazy_init()
    index = device_index(device)
    _C.check_device_index(index)
    return _wrap(index, _C.current_stream(index))


def default_stream(device: DeviceLike = None) -> Stream:
    """The default stream of a device."""
    _lazy_init()
    index = device_index(device)
    return _wrap(index, _C.default_stream(index))


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> ExternalStream:
    """A stream around a queue of the driver; see `ExternalStream`."""
    return ExternalStream(data_ptr, device)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream, and its device, current in this thread. None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager that makes a stream and its device current. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous_device = -1
        self._previous_stream: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._previous_device = _C.current_device()
        self._previous_stream = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, *exc_info: object) -> None:
        if self._previous_stream is None:
            return
        set_stream(self._previous_stream)
        _C.exchange_device(self._previous_device)
        self._previous_stream = None


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager that makes a stream and its device current. None changes nothing."""
    return StreamContext(stream)
