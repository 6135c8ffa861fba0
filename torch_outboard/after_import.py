"""Calls functions once modules have been imported, without importing them.

The compiler takes as long to import as PyTorch, and libraries take longer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Function = Callable[[ModuleType], None]
_waiting: dict[str, list[Function]] = {}


class _Finder:
    """Finds modules by the other finders, and calls functions after their execution."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _waiting:
            return None
        spec = _found(name, path)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _call_after(spec)
        return spec


def _found(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if finder is not _Finder and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


def _call_after(spec: ModuleSpec) -> None:
    execute = spec.loader.exec_module  # type: ignore[union-attr]

    def exec_module(module: ModuleType) -> None:
        execute(module)
        for function in _waiting.pop(spec.name, ()):
            function(module)

    spec.loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]


def find_module(name: str) -> ModuleSpec | None:
    """The specification of a module, without running its code or that of its parent packages."""
    parts = name.split(".")
    path: Sequence[str] | None = None
    spec = None
    for count in range(1, len(parts) + 1):
        part = ".".join(parts[:count])
        spec = getattr(sys.modules.get(part), "__spec__", None) or _found(part, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations or []
    return spec


def module_exists(name: str) -> bool:
    """Whether a module can be imported; does not import its parent packages."""
    return name in sys.modules or find_module(name) is not None


def after_import(name: str, function: Function) -> None:
    """Calls a function with a module: now, if it is imported, or once it is."""
    module = sys.modules.get(name)
    initializing = getattr(getattr(module, "__spec__", None), "_initializing", False)
    if module is not None and not initializing:
        function(module)
        return
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    _waiting.setdefault(name, []).append(function)
