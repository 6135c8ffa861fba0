"""Every overload of the installed PyTorch: whether a device needs a kernel for it, and has one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields

from torch_outboard import _C
from torch_outboard.dispatch import placement
from torch_outboard.dispatch.registrations import notice
from torch_outboard.inspection import dispatcher
from torch_outboard.inspection.native_functions import structured_groups
from torch_outboard.inspection.origins import brought_by, shortened
from torch_outboard.inspection.table_rows import table_rows

_KEY = "PrivateUse1"
# What PyTorch calls on accelerators alone, so that CPU has no kernel to go by.
_OF_ACCELERATORS = ("aten::_copy_from", "aten::_copy_from_and_resize", "aten::_resize_output_",
                    "aten::record_stream")  # fmt: skip
# What each column of the list says; its names are those of the fields of Overload.
COLUMNS = {
    "operator": "the overload",
    "needs": "what a new device must bring: kernel, out (that of the group's out= form), no, or "
    "other (not even CPU has one: for other layouts, or for the library of a vendor)",
    "composite": "PyTorch's own kernel for every device: implicit (with the derivative of its "
    "parts), explicit, nonfunctional (the structured form around out=)",
    "structured": "the form whose kernel serves the whole group",
    "stub": "the stubs that it asks for a loop of the device; see the command `stubs`",
    "runs": "by what the device runs it now: device kernel, typed host kernel, host kernel, "
    "own code, library call, composite, nothing",
    "engine": "what makes the device kernel",
    "by": "who brought what runs: kit, library, maker, user, extension, PyTorch",
    "file": "where that stands",
    "schema": "the schema",
}


@dataclass(frozen=True)
class Overload:
    """A line of the list; COLUMNS says what its fields are."""

    operator: str
    needs: str
    composite: str
    structured: str
    stub: str
    runs: str
    engine: str
    by: str
    file: str
    schema: str


assert tuple(COLUMNS) == tuple(field.name for field in fields(Overload))


def overloads(device: int = 0) -> list[Overload]:
    """The list for a device of the driver in use, by name; starts the device."""
    return [
        _overload(name, device) for name in _all_names() if dispatcher.schema_of(name) is not None
    ]


def overload(name: str, device: int = 0) -> Overload:
    """The line of one overload, `"aten::add.Tensor"`."""
    _all_names()
    return _overload(name, device)


def _all_names() -> list[str]:
    """Every overload, after what others registered meanwhile was noticed."""
    _C.finish_registrations()
    notice()
    _C.load_device_kernels()
    return dispatcher.overload_names()


def _overload(name: str, device: int) -> Overload:
    kernels = {r.key: r for r in dispatcher.registrations(name) if r.active}
    composite = composite_of(kernels)
    group = structured_groups().get(name, "")
    runs, engine, by, file = _runs(name, device)
    return Overload(
        operator=name,
        needs=_needs(name, composite, dense="CPU" in kernels or name in _OF_ACCELERATORS),
        composite=composite,
        structured=group,
        stub=_stubs().get(name, ""),
        runs=runs,
        engine=engine,
        by=by,
        file=file,
        schema=dispatcher.schema_of(name) or "",
    )


def composite_of(keys: object) -> str:
    """By the keys with kernels: `"implicit"`, `"explicit"`, `"nonfunctional"` or `""`."""
    assert isinstance(keys, dict)
    for name, key in (
        ("implicit", "CompositeImplicitAutograd"),
        ("explicit", "CompositeExplicitAutograd"),
        ("nonfunctional", "CompositeExplicitAutogradNonFunctional"),
    ):
        if key in keys:
            return name
    return ""


def _needs(name: str, composite: str, *, dense: bool) -> str:
    """What a device must bring for an overload with such a composite kernel, `dense` if it has one
    for dense CPU tensors.

    Composite kernels are made of other operators and run on any device. Most of those that are
    `"nonfunctional"` allocate the result of a structured operator and call its `out=` form, so that
    is needed. Where PyTorch's list of structured operators is missing, an `out=` form that is not
    composite tells.
    """
    if composite == "":
        return "kernel" if dense else "other"
    structured = structured_groups()
    form = structured.get(name, "") if structured else _out_form(name)
    return "out" if composite == "nonfunctional" and form else "no"


def _out_form(name: str) -> str:
    """A form of an operator that writes to given tensors and is not composite; "" for none."""
    plain = name.partition(".")[0].removesuffix("_")
    for other in dispatcher.overloads_of(plain):
        kernels = {r.key: r for r in dispatcher.registrations(other)}
        schema = dispatcher.schema_of(other) or ""
        if "(a!) " in schema.partition("*, ")[2] and not composite_of(kernels):
            return other
    return ""


def _runs(name: str, device: int) -> tuple[str, str, str, str]:
    """What runs, its engine, who brought it, and the file."""
    entry = dispatcher.entries(name).get(_KEY)
    if entry is None:
        return "nothing", "", "", ""
    by, place = brought_by(entry.place), shortened(entry.place)
    if entry.origin == "backend fallback":
        known = "CPU" in dispatcher.entries(name)
        return ("host kernel", "", by, place) if known or by != "kit" else ("nothing", "", "", "")
    if entry.origin != "kernel":
        return "composite", "", by, place
    kernels = _C.router_kernels(name) if by == "kit" else None
    if kernels is None:
        return "own code", "", by, place
    for source, placed, family, index, _, separate_only, origin in kernels:
        if index not in (-1, device) or (separate_only and _C.shares_host_memory(device)):
            continue
        if source in ("maker", "user"):
            what = "device kernel" if family else "own code"
            return what, family or "", source, shortened(origin)
        if source == "library":
            return "library call", family or "", source, ""
        if family is None:
            return ("own code" if placed == "device" else "typed host kernel"), "", "kit", place
        if _takes_device_kernels(device):
            row = table_rows()[name][0]
            return "device kernel", row.engine, "kit", row.file
    boxed = dispatcher.registration(name, _KEY)
    typed = boxed is not None and not boxed.boxed_only
    return ("typed host kernel" if typed else "host kernel"), "", "kit", place


@functools.cache
def _stubs() -> Mapping[str, str]:
    """The stubs of each overload that asks some."""
    found: dict[str, str] = {}
    for stub, overloads_of_it in sorted(_C.stub_operators().items()):
        for name in (f"aten::{short}" for short in overloads_of_it.split()):
            found[name] = f"{found[name]} {stub}" if name in found else stub
    return found


def _takes_device_kernels(device: int) -> bool:
    return _C.runs_code(device) and placement.get_placement(device) != "host"
