"""Every public name has a docstring, which the reference shows: what it does, and in which unit."""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType

import pytest

MODULES = (
    "torch_outboard",
    "torch_outboard.dispatch.fallback",
    "torch_outboard.dispatch.ways",
    "torch_outboard.dispatch.user_kernels",
    "torch_outboard.device.device_module",
)


def public(name: str) -> list[tuple[str, object]]:
    module = importlib.import_module(name)
    found = [(f"{name}.{each}", getattr(module, each)) for each in module.__all__]
    return [
        (title, thing)
        for title, thing in found
        if not isinstance(thing, (ModuleType, str, tuple, list)) and callable(thing)
    ]


NAMES = [pair for module in MODULES for pair in public(module)]


@pytest.mark.parametrize(("name", "thing"), NAMES, ids=[name for name, _ in NAMES])
def test_it_is_described(name: str, thing: object) -> None:
    assert len((inspect.getdoc(thing) or "").split()) > 3, name


@pytest.mark.parametrize(
    ("name", "thing"),
    [(n, t) for n, t in NAMES if re.search(r"memory_(allocated|reserved|used)|mem_get_info", n)],
)
def test_sizes_of_memory_have_their_unit(name: str, thing: object) -> None:
    assert re.search("[Bb]yte", inspect.getdoc(thing) or ""), name
