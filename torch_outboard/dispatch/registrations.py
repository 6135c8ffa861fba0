"""The registered kernels of an operator, their authors, and their precedence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from torch_outboard import _C
from torch_outboard.dispatch import dispatcher

__all__ = ["Kernel", "notice", "registering", "registrations"]

_PYTHON = re.compile(r"<|.*\.py:\d+$")
# The device's keys; kernels of autocast and autograd run before the device's.
_KEYS = ("AutocastPrivateUse1", "AutogradPrivateUse1", "PrivateUse1")


@dataclass(frozen=True)
class Kernel:
    """A kernel of an overload.

    Attributes:
        source: the author: `"user"`, `"vendor"`, `"library"` (a call of the driver's library)
            or `"kit"`.
        origin: location of the registration, "file:line"; "" for the kit's kernels.
        key: the dispatch key: `"PrivateUse1"`, or one of autograd and autocast.
        raw: whether it was registered with PyTorch's dispatcher, and not with the kit.
        follows: whether it is PyTorch's implementation around a kernel of the `out=` form.
        dtypes: dtypes of the first tensor of served calls; None: every dtype.
        device: index of the served device; -1: every device.
    """

    source: str
    origin: str
    key: str = "PrivateUse1"
    raw: bool = False
    follows: bool = False
    dtypes: tuple[torch.dtype, ...] | None = None
    device: int = -1


def notice(*overloads: str) -> None:
    """Tells the router about functions that Python registered with PyTorch's dispatcher.

    Functions for reports, policies and lists call this. Until then such a function runs, but is not
    in reports, and cannot decline.

    Args:
        overloads: their kernels from C++ libraries are noticed, too.
    """
    suffix = "/PrivateUse1"
    known = getattr(torch.library, "_impls", ())
    names = [key.removesuffix(suffix) for key in known if key.endswith(suffix)]
    _C.find_raw_kernels([*overloads, *(name.replace("/", "::", 1) for name in names)])


@contextmanager
def registering() -> Iterator[None]:
    """A block for registrations with PyTorch's dispatcher after the first use of the device.

    Libraries loaded in the block and functions of `torch.library` may register kernels for
    operators of PyTorch. At the end of the block these kernels get their rank: in reports and
    policies, for the forms that follow an `out=` form, and for calls that they decline. A library
    may also register a fallback for all operators. PyTorch has room for only one, so the kit
    removes its own fallback until the end of the block; until then other threads must not call
    operators of other libraries.
    """
    _C.begin_registering()
    try:
        yield
    finally:
        _C.end_registering()


def registrations(name: str) -> list[Kernel]:
    """The kernels of an overload in the order in which calls try them.

    The first kernel for the device and dtype that does not decline a call runs it, or else the
    host. Kernels for autograd and autocast are listed first: they run before the others, not
    instead of them. Memory, views and copies have one kernel of the kit.

    Args:
        name: for example `"aten::add.Tensor"`; without a namespace it is of `aten`.

    Raises:
        ValueError: if there is no such operator.
    """
    name = dispatcher.qualified(name)
    if not torch._C._dispatch_has_kernel(name):
        raise ValueError(f"operator '{name}' does not exist; write it as 'aten::add.Tensor'")
    notice(name)
    dispatched = _dispatched(name)
    found = [kernel for kernel in dispatched if kernel.key != "PrivateUse1"]
    routed = [
        Kernel(
            kernel.source,
            kernel.origin,
            "PrivateUse1",
            kernel.raw,
            kernel.follows,
            None if kernel.dtypes is None else tuple(kernel.dtypes),
            kernel.device,
        )
        for kernel in _C.router_kernels(name) or ()
    ]
    known = {kernel.origin for kernel in routed}
    found += [k for k in dispatched if k.key == "PrivateUse1" and k.origin not in known]
    return found + routed


def _dispatched(name: str) -> list[Kernel]:
    """PyTorch's registrations for the device, without overridden ones."""
    kernels = []
    for found in dispatcher.registrations(name):
        if found.key not in _KEYS or not found.active:
            continue
        by, in_python = dispatcher.origin(found.location)[0], _PYTHON.match(found.location)
        # A kernel in a Python file of PyTorch, such as autograd.Function.apply, is a user's kernel.
        if by == "extension" or (by == "PyTorch" and in_python):
            source = "user" if in_python else "vendor"
            kernels.append(Kernel(source, found.location, found.key, raw=True))
        elif found.key != "PrivateUse1":
            kernels.append(Kernel("kit", "", found.key))
    return sorted(kernels, key=lambda kernel: _KEYS.index(kernel.key))
