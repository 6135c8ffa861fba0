"""Initialization at the first use of the device, and calls deferred until then."""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch_outboard import _C, settings
from torch_outboard.drivers.discovery import SHIPPED_DRIVERS
from torch_outboard.state import state

_lock = threading.RLock()
_initialized = False
_queued: list[Callable[[], object]] = []


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from a process that had initialized the device."""
    return _C.in_bad_fork()


def is_initialized() -> bool:
    """Whether the device was used in this process."""
    return _initialized and not _C.in_bad_fork()


def init() -> None:
    """Initializes the driver; PyTorch does so automatically at the first use of the device.

    Raises:
        RuntimeError: if there is no usable driver or no device, with the reason, and in a forked
            child of a process that had used the device.
        ValueError: if a setting in the environment has an invalid value.
    """
    _lazy_init()


def _lazy_init() -> None:
    global _initialized
    if _initialized and not _C.in_bad_fork():
        return
    with _lock:
        if _initialized and not _C.in_bad_fork():
            return
        if state.wrong_setting is not None:
            raise ValueError(state.wrong_setting)
        _C.check_device_index(0)
        _warn_of_unknown_settings()
        _initialized = True
        while _queued:
            _queued.pop(0)()


def _warn_of_unknown_settings() -> None:
    """Warns of unknown settings of an external driver, whose module lists its settings."""
    choice = state.choice
    if choice is None or choice.module is None or choice.name in SHIPPED_DRIVERS:
        return
    settings.warn_of_unknown_of_driver(choice.name, choice.module)


def _lazy_call(function: Callable[[], object]) -> None:
    """Calls `function` now if the device is initialized, else at its initialization."""
    with _lock:
        if not is_initialized():
            _queued.append(function)
            return
    function()
