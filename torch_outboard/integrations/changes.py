"""Changes of an integration to a library: checked, recorded, and undone as a whole."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, MutableMapping
from types import FunctionType
from typing import Any

import torch

from torch_outboard import device_name


class PlaceChanged(Exception):
    """A library differs from the version that an integration was written for."""


def expect(condition: object, what: str) -> None:
    """Raises `PlaceChanged` unless the library is as expected."""
    if not condition:
        raise PlaceChanged(what)


class Changes:
    """Recorded changes; `undo` reverts them in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: type, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces a method that a class itself defines by `make(method)`."""
        before = vars(owner).get(name)
        expect(isinstance(before, FunctionType), f"{owner.__qualname__}.{name} is no function")
        setattr(owner, name, functools.wraps(before)(make(before)))  # type: ignore[arg-type]
        self._undo.append(lambda: setattr(owner, name, before))

    def replace_function(self, module: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces a function by `make(function)` in its module and in all importing modules.

        A module with `from library import function` has its own name for it, so this searches the
        names of every module, here and when the change is undone.
        """
        before = vars(module).get(name)
        expect(callable(before), f"{module.__name__} has no function {name}")
        after = functools.wraps(before)(make(before))
        _rename(before, after)
        self._undo.append(lambda: _rename(after, before))

    def replace_cpu(self, module: Any, name: str, only_for: object = None) -> None:
        """Makes a function that chooses a device return the device in use instead of the CPU.

        Args:
            module: the module of the function, which returns a name or a `torch.device`.
            name: the name of the function.
            only_for: the first argument of calls that let the function choose, if it has one.
        """

        def make(before: Callable[..., Any]) -> Callable[..., Any]:
            def choose(*arguments: Any, **options: Any) -> Any:
                found = before(*arguments, **options)
                asked = (*arguments, *options.values(), only_for)[0]
                if str(found) != "cpu" or not (asked is only_for or asked == only_for):
                    return found
                return device_name() if isinstance(found, str) else torch.device(device_name())

            return choose

        self.replace_function(module, name, make)

    def extend_constant(self, function: Any, expected: tuple[str, ...], name: str) -> None:
        """Adds a name to the one constant tuple of a function that holds all expected names.

        For `if device.type in ("cuda", "xpu")`, the tuple is a constant of the function's code.
        """
        function = inspect.unwrap(function)
        code = getattr(function, "__code__", None)
        expect(code is not None, f"{function!r} is not written in Python")
        found = [
            index
            for index, value in enumerate(code.co_consts)  # type: ignore[union-attr]
            if isinstance(value, (tuple, frozenset)) and set(expected) <= set(value)
        ]
        expect(len(found) == 1, f"{function.__qualname__} has no single list of {expected}")
        constants = list(code.co_consts)  # type: ignore[union-attr]
        constants[found[0]] = type(constants[found[0]])((*constants[found[0]], name))
        function.__code__ = code.replace(co_consts=tuple(constants))  # type: ignore[union-attr]
        self._undo.append(lambda: setattr(function, "__code__", code))

    def set(self, owner: Any, name: str, value: object) -> None:
        """Sets an existing attribute."""
        expect(name in vars(owner), f"{owner.__name__} has no {name}")
        before = getattr(owner, name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before))

    def insert(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Adds an entry to a dictionary or registry, unless the key exists."""
        if key not in mapping:
            mapping[key] = value
            self._undo.append(lambda: mapping.pop(key, None))

    def set_variable(self, name: str, value: str) -> None:
        """Sets an environment variable, unless the user has set it."""
        if name not in os.environ:
            os.environ[name] = value
            self._undo.append(lambda: os.environ.pop(name, None))

    def undo(self) -> None:
        """Reverts all changes."""
        while self._undo:
            self._undo.pop()()


def _rename(before: object, after: object) -> None:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):
            continue
        for name in [name for name, value in list(names.items()) if value is before]:
            names[name] = after
