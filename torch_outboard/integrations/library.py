"""A library with a fixed list of devices, and checked, reversible changes of its features."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.after_import import after_import, module_exists

# States of a library.
ABSENT = "not installed"
UNCHANGED = "unchanged"
WAITING = "enabled when imported"
ENABLED = "enabled"
DIFFERS = "code differs"


class CodeDiffers(Exception):
    """A library differs from the version that an integration was written for."""


def expect(condition: object, what: str) -> None:
    """Raises `CodeDiffers` unless the library is as expected."""
    if not condition:
        raise CodeDiffers(what)


class Changes(ExitStack):
    """Changes of a library; `close` reverts them in reverse order."""

    def replace(self, owner: Any, name: str, change: Callable[..., Any]) -> None:
        """Makes calls of a method of a class, or a function of a module, `change(function, ...)`.

        A module with `from library import function` has a separate name for it, so this searches
        the names of every module, here and when the change is reverted.
        """
        before = vars(owner).get(name)
        expect(callable(before), f"{owner.__name__} has no function {name}")

        @functools.wraps(before)
        def after(*arguments: Any, **options: Any) -> Any:
            return change(before, *arguments, **options)

        _rename(owner, before, after)
        self.callback(_rename, owner, after, before)

    def replace_cpu(self, module: Any, name: str, only_for: object = None) -> None:
        """Makes a function that chooses a device return the device in use instead of the CPU.

        Args:
            module: the module of the function, which returns a name or a `torch.device`.
            name: the name of the function.
            only_for: the first argument of calls that let the function choose, if it has one.
        """

        def choose(before: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            found = before(*arguments, **options)
            asked = (*arguments, *options.values(), only_for)[0]
            if str(found) != "cpu" or not (asked is only_for or asked == only_for):
                return found
            return device_name() if isinstance(found, str) else torch.device(device_name())

        self.replace(module, name, choose)

    def extend_constant(self, function: Any, expected: tuple[str, ...], name: str) -> None:
        """Adds a name to the one constant tuple of a function that holds all expected names.

        For `if device.type in ("cuda", "xpu")`, the tuple is a constant of the function's code.
        """
        function = inspect.unwrap(function)
        code = getattr(function, "__code__", None)
        expect(code is not None, f"{function!r} is not written in Python")
        constants = list(code.co_consts)  # type: ignore[union-attr]
        found = [
            index
            for index, value in enumerate(constants)
            if isinstance(value, (tuple, frozenset)) and set(expected) <= set(value)
        ]
        expect(len(found) == 1, f"{function.__qualname__} has no single list of {expected}")
        known = constants[found[0]]
        constants[found[0]] = type(known)((*known, name))
        function.__code__ = code.replace(co_consts=tuple(constants))  # type: ignore[union-attr]
        self.callback(setattr, function, "__code__", code)

    def set(self, owner: Any, name: str, value: object) -> None:
        """Sets an existing attribute."""
        expect(name in vars(owner), f"{owner.__name__} has no {name}")
        self.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def insert(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Adds an entry to a registry or the environment, unless the key exists."""
        if key not in mapping:
            mapping[key] = value
            self.callback(mapping.pop, key, None)


def _rename(owner: Any, before: object, after: object) -> None:
    for namespace in (owner, *sys.modules.values()):
        names = getattr(namespace, "__dict__", {})
        for name in [name for name, value in list(names.items()) if value is before]:
            setattr(namespace, name, after)


# The changes of a feature, after the import of its module (None for a feature without a module).
Change = Callable[[Any, Changes], None]


@dataclass(eq=False)
class Feature:
    """A feature of a library whose code names devices.

    Attributes:
        name: for the warning if the code differs.
        module: the module after whose import the change is made; None: immediately.
        change: makes all changes of this feature, or raises, after which they are reverted.
    """

    name: str
    module: str | None
    change: Change
    state: str = UNCHANGED
    changes: Changes = field(default_factory=Changes)

    def enable(self, library: Library) -> None:
        if self.state != UNCHANGED:
            return
        self.state = WAITING
        apply = functools.partial(self._apply, library)
        if self.module is None:
            apply(None)
        elif module_exists(self.module):
            after_import(self.module, apply)
        else:
            self._give_up(library, f"there is no module {self.module}")

    def current_state(self) -> str:
        """The state; DIFFERS if the module does not exist, even before its import."""
        gone = self.module is not None and not module_exists(self.module)
        return DIFFERS if gone else self.state

    def disable(self) -> None:
        self.changes.close()
        self.state = UNCHANGED

    def _apply(self, library: Library, module: ModuleType | None) -> None:
        if self.state != WAITING:  # disabled before the import
            return
        try:
            self.change(module, self.changes)
        except Exception as error:
            self.changes.close()
            self._give_up(library, str(error))
        else:
            self.state = ENABLED

    def _give_up(self, library: Library, problem: str) -> None:
        self.state = DIFFERS
        warnings.warn(
            f"{self.name} of {library.name} stays without the device: {library.name} "
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
        features: the features to change.
        needs: other libraries to change, too.
        distribution: its name in package metadata, if it differs from the import name.
    """

    name: str
    tried: str
    features: tuple[Feature, ...]
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
        """The state of the feature that is furthest from being enabled."""
        if not self.version():
            return ABSENT
        states = {feature.current_state() for feature in self.features}
        return next(state for state in (DIFFERS, WAITING, UNCHANGED, ENABLED) if state in states)
