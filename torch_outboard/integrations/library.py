"""A library, the places in it that name devices, and their checked and reversible changes."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.after_import import after_import, forget, module_exists

# States of a library.
ABSENT = "not installed"
UNCHANGED = "unchanged"
WAITING = "told when imported"
TOLD = "told"
CHANGED = "place has changed"


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


# The changes of a place, after the import of its module (None for a place without a module).
Change = Callable[[Any, Changes], None]


@dataclass(eq=False)
class Place:
    """A place where a library names devices.

    Attributes:
        what: the feature that users need it for, for the warning if the place has changed.
        module: the module after whose import the change is made; None: immediately.
        change: makes all changes of this place, or raises, after which `Changes.undo` reverts them.
    """

    what: str
    module: str | None
    change: Change
    state: str = UNCHANGED
    changes: Changes = field(default_factory=Changes)

    def enable(self, library: Library) -> None:
        if self.state != UNCHANGED:
            return
        self._library = library
        if self.module is None:
            self._apply(None)
        elif module_exists(self.module):
            self.state = WAITING
            after_import(self.module, self._apply)
        else:
            self._give_up(f"there is no module {self.module}")

    def current_state(self) -> str:
        """The state; CHANGED if the module does not exist, even before its import."""
        gone = self.module is not None and not module_exists(self.module)
        return CHANGED if gone else self.state

    def disable(self) -> None:
        if self.state == WAITING and self.module is not None:
            forget(self.module, self._apply)
        self.changes.undo()
        self.state = UNCHANGED

    def _apply(self, module: ModuleType | None) -> None:
        try:
            self.change(module, self.changes)
        except Exception as error:
            self.changes.undo()
            self._give_up(str(error))
        else:
            self.state = TOLD

    def _give_up(self, problem: str) -> None:
        self.state = CHANGED
        library = self._library
        warnings.warn(
            f"{self.what} of {library.name} stays without the device: {library.name} "
            f"{library.version()} is not as it was in {library.tried} ({problem}). Nothing was "
            f"changed there; name the device in the call",
            stacklevel=4,
        )


@dataclass(eq=False)
class Library:
    """A library that names devices.

    Attributes:
        name: its import name.
        tried: the version that the changes were tested with.
        places: where it names devices.
        needs: other libraries to change, too.
        distribution: its name in package metadata, if it differs from the import name.
    """

    name: str
    tried: str
    places: tuple[Place, ...]
    needs: tuple[str, ...] = ()
    distribution: str = ""

    def version(self) -> str:
        """The installed version; empty if the library is not installed."""
        if importlib.util.find_spec(self.name) is None:
            return ""
        try:
            return importlib.metadata.version(self.distribution or self.name)
        except importlib.metadata.PackageNotFoundError:
            return "?"

    def state(self) -> str:
        """The state of the place that is furthest from being enabled."""
        if not self.version():
            return ABSENT
        states = {place.current_state() for place in self.places}
        return next(state for state in (CHANGED, WAITING, UNCHANGED, TOLD) if state in states)
