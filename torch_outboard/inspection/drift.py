"""Comparison of the device's registrations with the schemas of another version of PyTorch."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from torch_outboard import _C
from torch_outboard.dispatch import dispatcher
from torch_outboard.dispatch.registrations import notice
from torch_outboard.inspection.operator_list import definitions

# Overloads whose schemas differ between the supported versions of PyTorch. A line has the first and
# the last minor version of PyTorch 2 with a schema, and the schema. Overloads that are not in the
# file have the same schema in all versions. Written by tools/schema_changes.py.
CHANGES = Path(__file__).with_name("schema_changes.tsv")
# An operator definition may name an argument, so a changed name needs a review.
FITS, UNUSED, NAMES, BREAKS = "fits", "never called", "names changed", "does not fit"

Changes = dict[str, dict[tuple[int, int], str]]


class Registered(NamedTuple):
    """A registration for the device that depends on the schema of an overload."""

    name: str
    by: str  # "kit", "extension", "vendor" or "user"
    # "typed": a C++ function with the arguments of the schema; "boxed": one with a stack of values;
    # "table": an operator definition, which names arguments. (The kit's boxed kernels fit all.)
    form: str


@dataclass(frozen=True)
class Drift:
    """A difference for one overload, and its effect on a registration."""

    operator: str
    change: str  # "added", "removed", "signature", "extended" or "renamed"
    by: str  # "" if nothing is registered
    form: str
    verdict: str
    here: str  # the schemas; "" for none
    there: str


def drift_against(source: str) -> list[Drift]:
    """Differences of another PyTorch's schemas, for all registrations of this process.

    Args:
        source: a supported version, `"2.14"` or `"2.14.1"`, or a file of comma-separated values
            with the columns `operator` and `schema`, as `operators --csv` writes it.

    Raises:
        ValueError: if `source` is neither.
    """
    return drift(registered(), installed_schemas(), schemas_of(source))


def registered() -> list[Registered]:
    """All current registrations for the device that depend on schemas, sorted by name."""
    _C.finish_registrations()
    notice()
    found = set()
    for name in {*dispatcher.overload_names(), *dispatcher.names_without_schema()}:
        for kernel in dispatcher.registrations(name):
            by = dispatcher.origin(kernel.location)[0]
            if "PrivateUse1" not in kernel.key or kernel.fallthrough or by == "PyTorch":
                continue
            if by != "kit" or not kernel.boxed_only:
                found.add(Registered(name, by, "boxed" if kernel.boxed_only else "typed"))
        for source in {kernel.source for kernel in _C.router_kernels(name) or ()}:
            if source in ("vendor", "user"):
                found.add(Registered(name, source, "typed" if source == "vendor" else "boxed"))
        if name in definitions():
            found.add(Registered(name, "kit", "table"))
    return sorted(found)


def drift(
    kernels: Collection[Registered], here: Mapping[str, str], there: Mapping[str, str]
) -> list[Drift]:
    """Differences for registered kernels, and overloads of `aten` that are new in `there`.

    Args:
        here: schemas of this version by overload.
        there: schemas of the other version by overload. Operators in namespaces that it lacks
            belong to extensions and are not compared.
    """
    namespaces = {name.partition("::")[0] for name in there}
    known = {kernel.name for kernel in kernels}
    new = {n for n in there.keys() - here.keys() - known if n.startswith("aten::")}
    found = []
    for name, by, form in sorted([*kernels, *(Registered(n, "", "") for n in new)]):
        before, after = here.get(name, ""), there.get(name, "")
        change = change_between(before, after)
        if change and name.partition("::")[0] in namespaces:
            found.append(Drift(name, change, by, form, _verdict(form, change), before, after))
    return found


def _verdict(form: str, change: str) -> str:
    if change == "added":
        return FITS if form else ""
    if change == "removed":
        return UNUSED
    if form == "table" and change == "renamed":
        return NAMES
    fitting = {"typed": ("renamed",), "boxed": ("renamed", "extended"), "table": ("extended",)}
    return FITS if change in fitting[form] else BREAKS


def change_between(before: str, after: str) -> str:
    """The kind of difference between two schemas; "" for none.

    Returns:
        `"added"`, `"removed"`; `"signature"`: other types of arguments or results; `"extended"`:
        more arguments, which calls can omit; `"renamed"`: only other names or defaults.
    """
    if before == after:
        return ""
    if not before or not after:
        return "added" if after else "removed"
    try:
        old, new = torch._C.parse_schema(before), torch._C.parse_schema(after)
    except RuntimeError:  # a type that this version does not know
        return "signature"
    (old_types, old_results), (new_types, new_results) = _types(old), _types(new)
    more = new.arguments[len(old_types) :]
    if old_results != new_results or new_types[: len(old_types)] != old_types:
        return "signature"
    if not more:
        return "renamed"
    return "extended" if all(a.has_default_value() for a in more) else "signature"


def _types(schema: torch.FunctionSchema) -> tuple[list[str], list[str]]:
    return [str(a.type) for a in schema.arguments], [str(r.type) for r in schema.returns]


def installed_schemas() -> dict[str, str]:
    """The schemas of this process by overload, including loaded extensions."""
    found = ((name, dispatcher.schema_of(name)) for name in dispatcher.overload_names())
    return {name: schema for name, schema in found if schema is not None}


def schemas_of(source: str) -> dict[str, str]:
    """The schemas of another PyTorch by overload; see `drift_against`.

    Raises:
        ValueError: if the source has no schemas.
    """
    if re.fullmatch(r"\d+\.\d+(\.\d+)?(\+\w+)?", source):
        return _of_version(source)
    try:
        with open(source, encoding="utf-8", newline="") as lines:
            if found := {line["operator"]: line["schema"] for line in csv.DictReader(lines)}:
                return found
    except OSError as error:
        raise ValueError(f"'{source}' is neither a version nor a readable file: {error}") from None
    except (KeyError, csv.Error, UnicodeDecodeError):
        pass
    raise ValueError(f"'{source}' holds no schemas; `operators '' --csv` writes them")


def _of_version(version: str) -> dict[str, str]:
    """The schemas of a supported version: installed schemas, replaced where CHANGES differs."""
    minor, own = minor_of(version), minor_of(str(torch.__version__))
    first, last, changes = read_changes(CHANGES.read_text(encoding="utf-8"))
    if minor is None or own is None or not first <= min(minor, own) <= max(minor, own) <= last:
        raise ValueError(
            f"schemas of PyTorch {version} were asked for from {torch.__version__}, and 2.{first} "
            f"to 2.{last} are known; name a file that `operators '' --csv` wrote with it"
        )
    found = {name: schema for name, schema in installed_schemas().items() if name not in changes}
    for name, schemas in changes.items():
        for (since, until), schema in schemas.items():
            if since <= minor <= until:
                found[name] = schema
    return found


def name_of(schema: str) -> str:
    """The name of a schema's overload: `"aten::add.Tensor"`."""
    return schema.partition("(")[0]


def minor_of(version: str) -> int | None:
    """The minor version, 14 for `"2.14.1+cpu"`; None if the major version is not 2."""
    match = re.match(r"2\.(\d+)", version)
    return int(match[1]) if match else None


def read_changes(text: str) -> tuple[int, int, Changes]:
    """The first and last minor version, and the schemas by overload and range of versions."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    first, last = map(int, lines[0].split())
    found: Changes = {}
    for line in lines[1:]:
        since, until, schema = line.split("\t")
        found.setdefault(name_of(schema), {})[int(since), int(until)] = schema
    return first, last, found
