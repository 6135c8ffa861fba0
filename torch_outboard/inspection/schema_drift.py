"""Whether what is registered for the device still fits another version of PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter

import torch

from torch_outboard import _C
from torch_outboard.dispatch.registrations import notice
from torch_outboard.inspection import dispatcher
from torch_outboard.inspection.origins import brought_by
from torch_outboard.inspection.table_rows import table_rows

# A row of the tables may ask for the names that an argument has, so it is to be looked at.
FITS, UNUSED, NAMES, BREAKS = "fits", "never called", "names changed", "does not fit"


@dataclass(frozen=True)
class Registered:
    """Something that is there for the device under the name of an overload."""

    name: str
    by: str  # "kit", "extension", "maker" or "user"
    # "typed": a C++ function with the arguments of the schema; "boxed": one with a stack of values;
    # "router": the kit's own boxed one, which goes by whatever schema there is; "table": a row of
    # the operator tables, which names arguments.
    form: str


@dataclass(frozen=True)
class Drift:
    """A difference for one overload, and what it means for what is registered."""

    name: str
    change: str  # "added", "removed", "signature", "extended" or "renamed"
    by: str  # "" where nothing is registered
    form: str
    verdict: str
    here: str  # the schemas; "" for none
    there: str


def registered() -> list[Registered]:
    """Everything that is registered for the device now, by name."""
    _C.finish_registrations()
    notice()
    found = set()
    for name in {*dispatcher.overload_names(), *dispatcher.names_without_schema()}:
        for kernel in dispatcher.registrations(name):
            by = brought_by(kernel.place)
            if "PrivateUse1" not in kernel.key or kernel.fallthrough or by == "PyTorch":
                continue
            boxed = "router" if by == "kit" else "boxed"
            found.add(Registered(name, by, boxed if kernel.boxed_only else "typed"))
        for source, *_ in _C.router_kernels(name) or ():
            if source in ("maker", "user"):
                found.add(Registered(name, source, "typed" if source == "maker" else "boxed"))
        if name in table_rows():
            found.add(Registered(name, "kit", "table"))
    return sorted(found, key=attrgetter("name", "by", "form"))


def drift(
    kernels: Collection[Registered], here: Mapping[str, str], there: Mapping[str, str]
) -> list[Drift]:
    """What differs, for all that is registered and for overloads of `aten` that are new there.

    Args:
        kernels: what is registered.
        here: schemas of this version by overload.
        there: those of the other version. Operators of namespaces that it lacks are extensions',
            and are not compared.
    """
    namespaces = {name.partition("::")[0] for name in there}
    found = []
    for kernel in kernels:
        if kernel.name.partition("::")[0] not in namespaces:
            continue
        before, after = here.get(kernel.name, ""), there.get(kernel.name, "")
        change = change_between(before, after)
        if change:
            verdict = _verdict(kernel.form, change)
            found.append(Drift(kernel.name, change, kernel.by, kernel.form, verdict, before, after))
    known = {kernel.name for kernel in kernels}
    for name in sorted(there.keys() - here.keys() - known):
        if name.startswith("aten::"):
            found.append(Drift(name, "added", "", "", FITS, "", there[name]))
    return found


def _verdict(form: str, change: str) -> str:
    if form == "router" or change == "added":
        return FITS
    if change == "removed":
        return UNUSED
    if form == "table" and change == "renamed":
        return NAMES
    fitting = {"typed": ("renamed",), "boxed": ("renamed", "extended"), "table": ("extended",)}
    return FITS if change in fitting[form] else BREAKS


def change_between(before: str, after: str) -> str:
    """What became of a schema; "" for nothing.

    Returns:
        `"added"`, `"removed"`; `"signature"`: other types of arguments or results; `"extended"`:
        more arguments, which calls can leave out; `"renamed"`: other names or defaults alone.
    """
    if before == after:
        return ""
    if not before or not after:
        return "added" if after else "removed"
    try:
        old, new = torch._C.parse_schema(before), torch._C.parse_schema(after)
    except RuntimeError:  # a type that this version does not know
        return "signature"
    if _types(old) == _types(new):
        return "renamed"
    # Which names results have does not matter to callers.
    count = len(old.arguments)
    kept = [str(a.type) for a in new.arguments][:count] == [str(a.type) for a in old.arguments]
    more = new.arguments[count:]
    same_results = [str(r.type) for r in new.returns] == [str(r.type) for r in old.returns]
    optional = bool(more) and all(argument.has_default_value() for argument in more)
    return "extended" if kept and optional and same_results else "signature"


def _types(schema: torch.FunctionSchema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    arguments = tuple(str(argument.type) for argument in schema.arguments)
    return arguments, tuple(str(result.type) for result in schema.returns)
