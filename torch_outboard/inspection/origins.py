"""Who a kernel is from, by the file that registered it."""

from __future__ import annotations

import functools
from pathlib import Path

import torch

from torch_outboard.inspection.dispatcher import registration, registrations
from torch_outboard.paths import PACKAGE

# An overload that the kit has always registered itself, and one of PyTorch's.
_OWN = "aten::_copy_from"
_PYTORCH = "aten::add.Tensor"
# How the kit signs its fallback, which says more than a file.
_OWN_FALLBACK = "by torch_outboard"
_INSTALLED = str(Path(torch.__file__).parent)


@functools.cache
def _kit_sources() -> str:
    """Where the kit's C++ was compiled: what the paths of its files start with."""
    for key in ("PrivateUse1", "Conjugate"):
        found = registration(_OWN, key)
        if found is not None and "/csrc/dispatch/" in found.place:
            return found.place.rpartition("/csrc/dispatch/")[0] + "/csrc/"
    return "torch_outboard/csrc/"


@functools.cache
def _pytorch_sources() -> str:
    """Where PyTorch was compiled."""
    for found in registrations(_PYTORCH):
        if "/build/aten/" in found.place:
            return found.place.partition("/build/aten/")[0] + "/"
    return "pytorch/"


def is_kit(place: str) -> bool:
    """Whether a file ("file:line") is one of the kit's."""
    return place.startswith((_kit_sources(), f"{PACKAGE}/", _OWN_FALLBACK))


def is_pytorch(place: str) -> bool:
    """Whether it is one of PyTorch's."""
    return place.startswith((_pytorch_sources(), f"{_INSTALLED}/"))


def brought_by(place: str) -> str:
    """`"kit"`, `"PyTorch"`, or `"extension"` for whoever else registered a kernel."""
    if is_kit(place):
        return "kit"
    return "PyTorch" if is_pytorch(place) else "extension"


def shortened(place: str) -> str:
    """A place without the folders above the sources: `"csrc/dispatch/registration.cpp:71"`."""
    if place.startswith(_OWN_FALLBACK):
        return "csrc/dispatch/registration.cpp"
    if place.startswith(_kit_sources()):
        return "csrc/" + place.removeprefix(_kit_sources())
    if place.startswith(f"{PACKAGE}/"):
        return "torch_outboard/" + place.removeprefix(f"{PACKAGE}/")
    if place.startswith(f"{_INSTALLED}/"):
        return "torch/" + place.removeprefix(f"{_INSTALLED}/")
    return place.removeprefix(_pytorch_sources()).removeprefix("build/")
