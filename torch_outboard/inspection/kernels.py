"""The kernels that the router tries for a call, in order, and why it skips some."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import torch

from torch_outboard import _C
from torch_outboard.dispatch import dispatcher, placement
from torch_outboard.dispatch.dispatcher import Entry, origin
from torch_outboard.dispatch.registrations import notice
from torch_outboard.ops import tables
from torch_outboard.ops.definition import dtype_number


@dataclass(frozen=True)
class Kernel:
    """A kernel that runs calls of an overload on a device."""

    # "device kernel", "library call", "typed host kernel", "host kernel", "own code" (code of its
    # author, or the kit's for memory, views and copies) or "composite".
    what: str
    family: str  # of a device kernel; "" for other kernels
    by: str  # "user", "vendor", "library", "kit", "extension" or "PyTorch"
    file: str
    skipped: str = ""  # why calls go on to the next kernel; "" if this kernel runs them


@functools.cache
def definitions() -> Mapping[str, tuple[tuple[str, int], ...]]:
    """The kit's operator definitions by overload, in the order in which calls try them.

    Returns:
        The file, `"torch_outboard/ops/pointwise/operators.py"`, and a mask of dtypes as from
        torch_outboard.ops.definition.dtype_bits; 0: the dtypes of the kernel.
    """
    found: dict[str, tuple[tuple[str, int], ...]] = {}
    for name in tables.TABLES:
        module = f"torch_outboard.ops.{name}"
        for definition in import_module(module).definitions():
            made = module.replace(".", "/") + ".py", definition.properties.get("dtypes", 0)
            for overload in definition.overloads:
                found[overload] = (*found.get(overload, ()), made)
    return found


def load_kernels() -> None:
    """Makes the router know all kernels: the kit's, and later registrations with PyTorch."""
    definitions()  # imports modules, some of which define operators
    _C.finish_registrations()
    notice()
    _C.load_device_kernels()


def kernels(
    name: str, device: int = 0, dtype: torch.dtype | None = None, key: str = "PrivateUse1"
) -> list[Kernel]:
    """The kernels of an overload in the order in which a call tries them, after `load_kernels`.

    The first kernel that is not skipped runs a call. If it declines the call, the next one does.

    Args:
        dtype: dtype of the first tensor argument; None: any.
        key: dispatch key of the device's tensors: `"SparsePrivateUse1"` for sparse tensors.

    Raises:
        RuntimeError: if the device has to run device kernels and its compiler does not work.
    """
    entry = dispatcher.entries(name).get(key)
    if entry is None:
        return []
    by, file = origin(entry.place)
    routed = _C.router_kernels(name)
    if entry.composite:
        return [Kernel("composite", "", by, file)]
    if by != "kit" or (routed is None and entry.origin != "backend fallback"):
        return [Kernel("own code", "", by, file)]
    dense = key == "PrivateUse1"
    found = []
    defined = iter(definitions().get(name, ()))
    for kernel in routed or ():
        family = kernel.family
        ours = kernel.source == "kit"
        built_in = ours and family is not None
        defined_in, of_definition = next(defined, ("", 0)) if built_in else ("", 0)
        if ours and not dense:
            skipped = "not for this layout"
        elif kernel.device not in (-1, device) or (
            kernel.separate_memory_only and _C.shares_host_memory(device)
        ):
            skipped = "not for this device"
        elif (
            dtype is not None
            and not (of_definition or kernel.dtype_bits) >> dtype_number(dtype) & 1
        ):
            skipped = f"not for {str(dtype).removeprefix('torch.')}"
        else:
            skipped = why_on_host(device) if built_in else ""
        what = "device kernel" if family else "own code"
        if kernel.source == "library":
            what = "library call"
        elif ours and not family and kernel.placement != "device":
            what = "typed host kernel"
        where = defined_in or origin(kernel.origin)[1] or (file if ours else "")
        found.append(Kernel(what, family or "", kernel.source, where, skipped))
    return [*found, *_host_kernel(name, entry)]


def why_on_host(device: int) -> str:
    """The reason why the kit's device kernels do not run on a device; "" if they do.

    Raises:
        RuntimeError: if they have to run and the device's compiler does not work.
    """
    if not _C.runs_code(device):
        return "the device runs no code"
    if placement.runs_on_device(device):
        return ""
    setting = placement.get_placement(device)
    if setting == "host":
        return "the placement is 'host'"
    if _C.device_properties(device).kind == "cpu" and _C.shares_host_memory(device):
        return f"the placement is '{setting}' on a CPU that shares the host's memory"
    return "the device's compiler fails; see `doctor`"


def _host_kernel(name: str, entry: Entry) -> list[Kernel]:
    """The CPU's kernel, which the router tries last; an empty list if there is none."""
    if any(
        r.key == entry.key and r.active and not r.boxed_only for r in dispatcher.registrations(name)
    ):
        return [Kernel("typed host kernel", "", *origin(entry.place))]
    cpu = dispatcher.entries(name).get(entry.key.replace("PrivateUse1", "CPU"))
    return [Kernel("host kernel", "", *origin(cpu.place))] if cpu else []
