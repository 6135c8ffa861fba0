"""What PyTorch's dispatcher has registered, read from its own descriptions of operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch

# The kit signs what it registers for dense tensors.
_SIGNATURE = "torch_outboard, "
_REGISTRATION = re.compile(
    r"^(?P<key>\w+)(?P<alias>\[alias\])?(?P<inactive> \(inactive\))?: "
    rf"(?:registered at )?(?:{_SIGNATURE})?(?P<place>.*) :: .* \[ (?P<forms>[\w ]*) \]$"
)
_ENTRY = re.compile(
    r"^(?P<key>\w+): (?P<fallthrough>fallthrough )?(?:registered at )?"
    rf"(?:{_SIGNATURE})?(?P<place>.*) \[(?P<origin>[^\[\]]*)\]$"
)


@dataclass(frozen=True)
class Registration:
    """A kernel that somebody registered for an overload."""

    key: str
    place: str  # "<file>:<line>"
    boxed_only: bool
    fallthrough: bool
    active: bool  # else another registration for the key came later


@dataclass(frozen=True)
class Entry:
    """What a call of an overload meets at a dispatch key."""

    key: str
    place: str  # "<file>:<line>"
    origin: str  # "kernel", "backend fallback", "default backend kernel", "math kernel" ...
    fallthrough: bool  # the call goes on to the next key at once


def overload_names() -> list[str]:
    """All overloads of the process, sorted: `"aten::add.Tensor"`."""
    return sorted(torch._C._dispatch_get_all_op_names())


def overloads_of(operator: str) -> list[str]:
    """The overloads of an operator: `"aten::relu"` and `"aten::relu.out"` of `"aten::relu"`."""
    namespace, _, name = operator.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        return []
    return [f"{operator}.{overload}".removesuffix(".default") for overload in packet.overloads()]


def names_without_schema() -> list[str]:
    """Overloads that have kernels, but nobody has defined; perhaps in another PyTorch."""
    dumps = torch._C._dispatch_find_dangling_impls()
    return [dump.splitlines()[0].removeprefix("name: ") for dump in dumps]


def schema_of(name: str) -> str | None:
    """The schema of an overload; None if there is no such overload, or kernels alone."""
    for line in torch._C._dispatch_dump(name).splitlines():
        if line.startswith("schema: "):
            schema = line.removeprefix("schema: ")
            return schema if "(" in schema else None
    return None


def registrations(name: str) -> list[Registration]:
    """The kernels of an overload in the order of their keys, those of alias keys last."""
    found = []
    for line in torch._C._dispatch_dump(name).splitlines():
        if match := _REGISTRATION.match(line):
            forms = match["forms"].split()
            found.append(
                Registration(
                    match["key"],
                    match["place"],
                    "unboxed" not in forms,
                    "fallthrough" in forms,
                    not match["inactive"],
                )
            )
    return found


def registration(name: str, key: str) -> Registration | None:
    """The kernel of an overload for a key that calls of it run now; None if it has none."""
    return next((r for r in registrations(name) if r.key == key and r.active), None)


def entries(name: str) -> Mapping[str, Entry]:
    """What a call meets, by dispatch key; keys at which there is no kernel are left out."""
    found = {}
    for line in torch._C._dispatch_dump_table(name).splitlines():
        if match := _ENTRY.match(line):
            fallthrough = match["fallthrough"] is not None
            found[match["key"]] = Entry(match["key"], match["place"], match["origin"], fallthrough)
    return found
