"""Dispatch keys, the kernels registered with PyTorch's dispatcher, and their authors.

Kernels are read from the dispatcher's dumps of an operator, which name the file of each
registration.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from torch_outboard.state import PACKAGE

# The prefix of the kit's registrations for dense tensors.
_SIGNATURE = "torch_outboard, "
# The kit's fallback for all operators has this instead of a file.
_FALLBACK = "by torch_outboard"
_REGISTRATION = re.compile(
    r"^(?P<key>\w+)(?P<alias>\[alias\])?(?P<inactive> \(inactive\))?: "
    rf"(?:registered at )?(?:{_SIGNATURE})?(?P<location>.*) :: .* \[ (?P<forms>[\w ]*) \]$"
)
_ENTRY = re.compile(
    r"^(?P<key>\w+): (?P<fallthrough>fallthrough )?(?:registered at )?"
    rf"(?:{_SIGNATURE})?(?P<location>.*) \[(?P<origin>[^\[\]]*)\]$"
)

# Backends and layouts whose keys have kernels that compute, where dispatch ends.
_BACKENDS = ("CPU", "CUDA", "Meta", "PrivateUse1", "XPU", "MPS", "HPU", "MTIA", "Undefined")
_LAYOUTS = ("", "Sparse", "SparseCsr", "Quantized", "NestedTensor")


@dataclass(frozen=True)
class Registration:
    """A kernel that was registered for an overload."""

    key: str
    location: str  # "<file>:<line>"
    boxed_only: bool
    fallthrough: bool
    active: bool  # False if a later registration for the key overrides it


@dataclass(frozen=True)
class Entry:
    """The kernel of an overload at a dispatch key."""

    key: str
    location: str  # "<file>:<line>"
    origin: str  # "kernel", "backend fallback", "default backend kernel", "math kernel" ...
    fallthrough: bool  # the call goes on to the next key at once

    @property
    def composite(self) -> bool:
        """Whether it is PyTorch's decomposition into other operators, for every device."""
        return self.origin in ("math kernel", "default backend kernel", "nested kernel")


def qualified(name: str) -> str:
    """The full name of an operator or overload: `"add.Tensor"` is `"aten::add.Tensor"`."""
    return (name if "::" in name else f"aten::{name}").removesuffix(".default")


def overload_names() -> list[str]:
    """All overloads of the process, sorted: `"aten::add.Tensor"`."""
    return sorted(torch._C._dispatch_get_all_op_names())


def overload_of(name: str) -> torch._ops.OpOverload:
    """The callable of a full name: `"aten::add.Tensor"`, `"aten::relu"`.

    Raises:
        AttributeError: if PyTorch has no such operator.
    """
    return torch._library.utils.lookup_op(name)


def overloads_of(operator: str) -> list[str]:
    """The overloads of an operator: `"aten::relu"` has `"aten::relu"` and `"aten::relu.out"`."""
    namespace, _, name = operator.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        return []
    return [f"{operator}.{overload}".removesuffix(".default") for overload in packet.overloads()]


def names_without_schema() -> list[str]:
    """Overloads with kernels but without a schema; another version of PyTorch may define them."""
    dumps = torch._C._dispatch_find_dangling_impls()
    return [dump.splitlines()[0].removeprefix("name: ") for dump in dumps]


def schema_of(name: str) -> str | None:
    """The schema of an overload; None if there is no such overload, or it has only kernels."""
    for line in torch._C._dispatch_dump(name).splitlines():
        if line.startswith("schema: "):
            schema = line.removeprefix("schema: ")
            return schema if "(" in schema else None
    return None


def registrations(name: str) -> list[Registration]:
    """The kernels of an overload in the order of their keys, alias keys last."""
    found = []
    for line in torch._C._dispatch_dump(name).splitlines():
        if match := _REGISTRATION.match(line):
            forms = match["forms"].split()
            boxed_only, fallthrough = "unboxed" not in forms, "fallthrough" in forms
            active = not match["inactive"]
            found.append(
                Registration(match["key"], match["location"], boxed_only, fallthrough, active)
            )
    return found


def entries(name: str) -> Mapping[str, Entry]:
    """The kernels of an overload by dispatch key; keys without a kernel are omitted."""
    found = {}
    for line in torch._C._dispatch_dump_table(name).splitlines():
        if match := _ENTRY.match(line):
            fallthrough = match["fallthrough"] is not None
            found[match["key"]] = Entry(
                match["key"], match["location"], match["origin"], fallthrough
            )
    return found


@functools.cache
def _folders() -> tuple[tuple[str, str, str], ...]:
    """Folders of sources, the author of the sources, and the prefix of displayed paths."""

    def above(name: str, folder: str) -> str:
        locations = (r.location for r in registrations(name))
        return next((p.partition(folder)[0] for p in locations if folder in p), "unknown")

    pytorch = Path(torch.__file__).parent
    return (
        (above("aten::_copy_from", "/csrc/dispatch/") + "/csrc/", "kit", "csrc/"),
        (f"{PACKAGE}/", "kit", "torch_outboard/"),
        (above("aten::add.Tensor", "/build/aten/") + "/", "PyTorch", ""),
        # This folder registers operators decorated with torch.library.custom_op.
        (f"{pytorch}/_library/", "extension", "torch/_library/"),
        (f"{pytorch}/", "PyTorch", "torch/"),
    )


def origin(location: str) -> tuple[str, str]:
    """The author of a kernel, and its location relative to the author's sources.

    Returns:
        `"kit"`, `"PyTorch"` or `"extension"`; `"csrc/dispatch/registration.cpp:71"`.
    """
    if location.startswith(_FALLBACK):
        return "kit", "csrc/dispatch/registration.cpp"
    for folder, by, shown in _folders():
        if location.startswith(folder):
            return by, shown + location.removeprefix(folder).removeprefix("build/")
    return "extension", location


# ---- Dispatch keys


def keys_of(tensor: torch.Tensor) -> list[str]:
    """The dispatch keys of a call with a tensor under the thread's modes, in dispatch order."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    keys = (torch._C._dispatch_keys(tensor) | included) - excluded
    names = []
    while (first := keys.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        names.append(str(first).rpartition(".")[2])
        keys = keys & torch._C._dispatch_keyset_full_after(first)
    return names


def is_backend(key: str) -> bool:
    """Whether kernels of a key compute: `"PrivateUse1"`, `"SparsePrivateUse1"` and so on."""
    return any(key == layout + backend for layout in _LAYOUTS for backend in _BACKENDS)


def stops(entry: Entry) -> bool:
    """Whether dispatch ends at an entry: its kernel computes, or calls other operators.

    Kernels of autograd, autocast and other modes call the next key.
    """
    return not entry.fallthrough and (is_backend(entry.key) or entry.composite)


def path(keys: Iterable[str], entries: Mapping[str, Entry]) -> list[Entry]:
    """The entries that a call with these keys visits, in order, fallthroughs included."""
    met = []
    for key in keys:
        if entry := entries.get(key):
            met.append(entry)
            if stops(entry):
                break
    return met
