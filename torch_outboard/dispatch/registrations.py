"""Kernels of an operator: the library that registered each, and the one that runs."""

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
# For the device; those of autograd and autocast run before them.
_KEYS = ("AutocastPrivateUse1", "AutogradPrivateUse1", "PrivateUse1")


@dataclass(frozen=True)
class Kernel:
    """A kernel of an overload.

    Attributes:
        source: who brought it: `"user"`, `"vendor"`, `"library"` (a call of the driver's library)
            or `"kit"`.
        origin: where it was registered, "file:line"; a library's path for the kernel of a stub; ""
            for the kit's own.
        key: the dispatch key: `"PrivateUse1"`, or one of autograd and autocast.
        raw: whether it was registered with PyTorch's dispatcher, and not with the kit.
        follows: whether it is PyTorch's implementation around a kernel of the `out=` form.
        dtypes: for calls whose first tensor has one of these; None: every dtype.
        device: index of the device that it is for; -1: every device.
    """

    source: str
    origin: str
    key: str = "PrivateUse1"
    raw: bool = False
    follows: bool = False
    dtypes: tuple[torch.dtype, ...] | None = None
    device: int = -1


def notice() -> None:
    """Tells the router of kernels that were registered with PyTorch's dispatcher meanwhile.

    That happens by itself at the first use of the device, and where reports, policies and lists are
    asked for. Until then such a kernel runs, but without them.
    """
    suffix = "/PrivateUse1"
    # What Python code has registered; libraries are noticed by being loaded.
    known = getattr(torch.library, "_impls", ())
    names = [key.removesuffix(suffix) for key in known if key.endswith(suffix)]
    _C.find_raw_kernels([name.replace("/", "::", 1) for name in names])


@contextmanager
def registering() -> Iterator[None]:
    """For registrations with PyTorch's dispatcher that come after the first use of the device.

    Whatever libraries that are loaded in the block, and functions of `torch.library`, register for
    operators of PyTorch has its rank when the block ends: in reports and policies, for the forms
    that follow an `out=` form, and for calls that it declines. A library may also bring a fallback
    for all operators, of which PyTorch has one: until the end of the block the kit gives its own
    up, and other threads must not call operators of other libraries.
    """
    _C.leave_fallback()
    try:
        yield
    finally:
        _C.return_fallback()
        notice()


def registrations(name: str) -> list[Kernel]:
    """The kernels of an overload, the one that is asked first at the beginning.

    A call takes the first kernel for its device and dtype that does not decline it, and else runs
    on the host. Kernels for autograd and autocast come first; they are no alternatives to the
    others but run before them. Memory, views and copies have one kernel of the kit.

    Args:
        name: for example `"aten::add.Tensor"`; without a namespace it is of `aten`.

    Raises:
        ValueError: if there is no such operator.
    """
    qualified = (name if "::" in name else f"aten::{name}").removesuffix(".default")
    if not torch._C._dispatch_has_kernel(qualified):
        raise ValueError(f"operator '{qualified}' does not exist; write it as 'aten::add.Tensor'")
    notice()
    dispatched = _dispatched(qualified)
    found = [kernel for kernel in dispatched if kernel.key != "PrivateUse1"]
    routed = [
        Kernel(
            source,
            origin,
            "PrivateUse1",
            raw,
            follows,
            None if dtypes is None else tuple(dtypes),
            device,
        )
        for source, _, origin, dtypes, device, raw, follows in _C.kernels_by_rank(qualified)
    ]
    behind = next((i for i, k in enumerate(routed) if k.source in ("kit", "library")), len(routed))
    routed[behind:behind] = _of_stubs(qualified)
    known = {kernel.origin for kernel in routed}
    found += [k for k in dispatched if k.key == "PrivateUse1" and k.origin not in known]
    return found + routed


def _dispatched(name: str) -> list[Kernel]:
    """Kernels of PyTorch's dispatcher for the device, without those that later ones hide."""
    kernels = []
    for found in dispatcher.registrations(name):
        if found.key not in _KEYS or not found.active:
            continue
        by, in_python = dispatcher.origin(found.place)[0], _PYTHON.match(found.place)
        # Functions of PyTorch's Python, such as autograd.Function.apply, are a user's kernels.
        if by == "extension" or (by == "PyTorch" and in_python):
            source = "user" if in_python else "vendor"
            kernels.append(Kernel(source, found.place, found.key, raw=True))
        elif found.key != "PrivateUse1":
            kernels.append(Kernel("kit", "", found.key))
    return sorted(kernels, key=lambda kernel: _KEYS.index(kernel.key))


def _of_stubs(name: str) -> list[Kernel]:
    """Kernels that vendors put into the stubs behind an operator."""
    return [Kernel("vendor", _C.stub_state(stub)[3]) for stub in _C.brought_stubs(name)]
