"""A list of every overload of PyTorch: whether a device needs a kernel for it, and has one."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import torch

from torch_outboard.dispatch import dispatcher
from torch_outboard.inspection.kernels import Kernel, kernels, load_kernels

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
