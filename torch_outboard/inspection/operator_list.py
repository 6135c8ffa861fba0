"""Every overload of PyTorch: whether a device needs a kernel for it, and the kernels of its calls.

Kernels are listed in the order in which the router tries them, with the reason why it skips some.
"""

from __future__ import annotations

import functools
import re
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

# Overloads that PyTorch calls only on accelerators, so a missing CPU kernel proves nothing.
_OF_ACCELERATORS = ("aten::_copy_from", "aten::_copy_from_and_resize", "aten::_resize_output_",
                    "aten::record_stream")  # fmt: skip
# In the order of precedence in the dispatcher.
_COMPOSITES = {
    "CompositeExplicitAutogradNonFunctional": "nonfunctional",
    "CompositeExplicitAutograd": "explicit",
    "CompositeImplicitAutograd": "implicit",
}
# Has a nonfunctional kernel, but is not structured: that kernel does not call the out= form.
_NOT_STRUCTURED = "aten::narrow_copy"


@dataclass(frozen=True)
class Overload:
    """A line of the list.

    Attributes:
        operator: the overload.
        needs: the kernel that a new device must register: "kernel", "out" (that of the group's out=
            form), "no", or "other" (CPU has none: for other layouts, or for a vendor's library).
        composite: PyTorch's kernel for every device: "implicit" (with the derivative of its parts),
            "explicit", or "nonfunctional" (the structured form around out=).
        structured: the form whose kernel serves the whole group.
        runs: the kernel that runs it on the device now: "device kernel", "typed host kernel", "host
            kernel", "own code", "library call", "composite" or "nothing".
        family: the family of the device kernel.
        by: the author of that kernel: "kit", "library", "vendor", "user", "extension" or "PyTorch".
        file: the source file of that kernel.
        schema: the schema.
    """

    operator: str
    needs: str
    composite: str
    structured: str
    runs: str
    family: str
    by: str
    file: str
    schema: str


def overloads(pattern: str | re.Pattern[str] = "", device: int = 0) -> list[Overload]:
    """The overloads whose names match a regular expression anywhere; initializes the device.

    Raises:
        RuntimeError: if the device has to run device kernels and its compiler does not work.
    """
    load_kernels()
    names = [name for name in dispatcher.overload_names() if re.search(pattern, name)]
    return [_overload(name, device) for name in names if dispatcher.schema_of(name) is not None]


def _overload(name: str, device: int) -> Overload:
    nothing = Kernel("nothing", "", "", "")
    runs = next((kernel for kernel in kernels(name, device) if not kernel.skipped), nothing)
    return Overload(
        operator=name,
        needs=_needs(name),
        composite=_composite(name),
        structured=structured_form(name),
        runs=runs.what,
        family=runs.family,
        by=runs.by,
        file=runs.file,
        schema=dispatcher.schema_of(name) or "",
    )


def _needs(name: str) -> str:
    """The kernel that a device must register; composite kernels run on any device."""
    if composite := _composite(name):
        return "out" if composite == "nonfunctional" and structured_form(name) else "no"
    keys = {r.key for r in dispatcher.registrations(name) if r.active}
    return "kernel" if "CPU" in keys or name in _OF_ACCELERATORS else "other"


def _composite(name: str) -> str:
    """The kind of PyTorch's composite kernel for an overload; "" if there is none."""
    keys = {r.key for r in dispatcher.registrations(name) if r.active}
    return next((kind for key, kind in _COMPOSITES.items() if key in keys), "")


def structured_form(name: str) -> str:
    """The form whose kernel serves all forms of a structured operator; "" for other operators.

    `"aten::add.Tensor"`, `"aten::add_.Tensor"` and `"aten::add.out"` have `"aten::add.out"`:
    PyTorch's kernels of the first two allocate the result and call the third.
    """
    out = out_form(name)
    if name.partition(".")[0] == _NOT_STRUCTURED:
        return ""
    if name != out and _composite(name) != "nonfunctional":
        return ""
    return out if any(_composite(form) == "nonfunctional" for form in _forms(name)) else ""


def out_form(name: str) -> str:
    """The out= form of an overload, if it is not composite; "" for none."""
    return next((form for form in _forms(name) if _inputs(form)[1] and not _composite(form)), "")


@functools.cache
def _forms(name: str) -> tuple[str, ...]:
    """The overloads of an operator with the same inputs: functional, in place, and out=."""
    plain = name.partition(".")[0].removesuffix("_")
    known = [n for form in (plain, f"{plain}_") for n in dispatcher.overloads_of(form)]
    return tuple(n for n in known if _inputs(n)[0] == _inputs(name)[0])


@functools.cache
def _inputs(name: str) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Names and types of an overload's inputs, and whether it has out= arguments."""
    try:
        arguments = torch._C.parse_schema(dispatcher.schema_of(name) or f"{name}() -> ()").arguments
    except RuntimeError:  # the parser of schemas does not know types such as PyObject
        return (), False
    inputs = tuple((a.name, str(a.type)) for a in arguments if not a.is_out)
    return inputs, len(inputs) < len(arguments)


# ---- The kernels of a call


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
            made = module.replace(".", "/") + ".py", getattr(definition, "dtypes", 0)
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
    by, file = origin(entry.location)
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
        return [Kernel("typed host kernel", "", *origin(entry.location))]
    cpu = dispatcher.entries(name).get(entry.key.replace("PrivateUse1", "CPU"))
    return [Kernel("host kernel", "", *origin(cpu.location))] if cpu else []
