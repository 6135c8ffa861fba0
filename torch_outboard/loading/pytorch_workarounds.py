"""All changes to PyTorch itself, each with its reason and the condition for its removal."""

from __future__ import annotations

import atexit
import functools
import operator
import sys
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

import torch
from torch import _ops
from torch.autograd import profiler_util
from torch.multiprocessing import reductions

from torch_outboard import _C
from torch_outboard.state import state


def share_storages_between_processes() -> None:
    """Lets torch.multiprocessing send storages of the device.

    Reason: `torch.multiprocessing.reductions.reduce_storage` knows CUDA and CPU; for any other
    device it calls `_share_fd_cpu_`, which fails. There is no hook for a backend.
    Where: torch/multiprocessing/reductions.py, `init_reductions`.
    Can go: when PyTorch asks the device module how to reduce a storage.
    """
    reduction.register(torch.UntypedStorage, _reduce_storage)


def _reduce_storage(
    storage: torch.UntypedStorage,
) -> tuple[Callable[..., object], tuple[Any, ...]]:
    if storage.device.type != state.name:
        reduced: tuple[Callable[..., object], tuple[Any, ...]] = reductions.reduce_storage(storage)
        return reduced
    from torch_outboard.device import sharing

    return sharing.reduce_storage(storage)


def name_the_device_in_dlpack() -> None:
    """Lets `tensor.__dlpack_device__` and `torch.from_dlpack(tensor)` know the device.

    Reason: PyTorch compares the device's type with "privateuse1", which no renamed device is called
    after `rename_privateuse1_backend`, and raises "Unknown device type". Capsules are right.
    Where: torch/_tensor.py, `Tensor.__dlpack_device__`.
    Can go: when PyTorch compares with the name of the backend.
    """
    original = torch.Tensor.__dlpack_device__
    if getattr(original, "__wrapped__", None) is not None:
        return

    @functools.wraps(original)
    def dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
        if torch.overrides.has_torch_function_unary(self):
            return torch.overrides.handle_torch_function(dlpack_device, (self,), self)
        if self.device.type != state.name:
            return original(self)
        return torch.utils.dlpack.DLDeviceType.kDLExtDev, self.device.index

    torch.Tensor.__dlpack_device__ = dlpack_device  # type: ignore[method-assign]


def name_the_device_in_profiles() -> None:
    """Lets `sort_by="self_<device>_time_total"` and the attributes of that name work in profiles.

    Reason: PyTorch replaces "cuda", "xpu" and "privateuse1" in such names by "device", but not the
    name of the backend, which stands over the columns, and raises AttributeError.
    Where: torch/autograd/profiler_util.py, `_build_table`.
    Can go: when PyTorch replaces the name of the backend.
    """
    for events in (profiler_util.FunctionEvent, profiler_util.FunctionEventAvg):
        for name in _DEVICE_TIMES:
            alias = name.replace("device", state.name)
            if not hasattr(events, alias):
                setattr(events, alias, property(operator.attrgetter(name)))


_DEVICE_TIMES = (
    "device_time",
    "device_time_str",
    "device_time_total",
    "device_time_total_str",
    "device_memory_usage",
    "self_device_time_total",
    "self_device_time_total_str",
    "self_device_memory_usage",
)


def let_higher_order_operators_through_autocast() -> None:
    """Lets `torch.cond`, `while_loop`, `scan` and the like run under the device's autocast.

    Reason: operators of higher order leave autocast to the operators in them on CPU, CUDA and XPU,
    by a list of keys; with any other they raise "could not find kernel".
    Where: torch/_ops.py, `_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS`.
    Can go: when the list has AutocastPrivateUse1.
    """
    key = torch._C.DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]
    keys = _ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    if key in keys:
        return
    keys.append(key)
    for higher_order in _ops._higher_order_ops.values():
        if key not in higher_order.py_kernels:
            higher_order.fallthrough(key)


def stop_autograd_threads_at_exit() -> None:
    """Ends autograd's threads of the device before the interpreter ends.

    Reason: PyTorch ends them in static destructors, where each takes the interpreter lock a last
    time; Python 3.11 then unwinds the thread, and the process aborts with "terminate called
    without an active exception" after a program that did nothing wrong.
    Where: torch/csrc/autograd/python_engine.cpp, `PythonEngine::thread_init`.
    Can go: with Python 3.11; PyTorch looks for the end of the interpreter from 3.12 on.
    """
    if sys.version_info < (3, 12):
        atexit.register(_stop_autograd_threads)


def _stop_autograd_threads() -> None:
    if _C.driver_initialized():
        _C.stop_autograd_threads()


def end_profiles_at_exit() -> None:
    """Ends a profile that is under way when the interpreter ends.

    Reason: PyTorch lets static destructors end it, in an order in which the process dies of a
    segmentation fault, on CPU as well.
    Where: torch/csrc/autograd/profiler_kineto.cpp, `KinetoThreadLocalState`.
    Can go: when `profile(...).start()` at the end of a program is no crash.
    """
    atexit.register(_end_profile)


def _end_profile() -> None:
    if torch._C._autograd._profiler_enabled():
        torch._C._autograd._disable_profiler()


def trace_lstm_by_parts() -> None:
    """Decomposes `aten::lstm.input` in traces, as on devices without a kernel for it.

    Reason: tracing reads the dispatcher's keys and does not decompose an operator with a kernel.
    The placement of layers is not known until the traced program runs.
    Where: torch/_ops.py, `OpOverload._get_dispatch`.
    Can go: when a backend can say which composite operators traces decompose.
    """
    keys, lstm = torch._C.DispatchKey, torch.ops.aten.lstm.input

    def as_without_kernel(*arguments: Any, **rest: Any) -> Any:
        # Export registers functions for the keys of devices without kernels, such as this key.
        other = lstm.py_kernels.get(keys.AutogradPrivateUse2)
        return (other or lstm.decompose)(*arguments, **rest)

    for key, kernel in (
        (keys.AutogradPrivateUse1, as_without_kernel),
        (keys.PrivateUse1, lstm.decompose),
    ):
        if key not in lstm.py_kernels:
            lstm.py_impl(key)(kernel)


def install() -> None:
    """Installs all workarounds, once."""
    share_storages_between_processes()
    name_the_device_in_dlpack()
    name_the_device_in_profiles()
    let_higher_order_operators_through_autocast()
    trace_lstm_by_parts()
    end_profiles_at_exit()
    stop_autograd_threads_at_exit()
