"""A library, the places in it that name devices, and their changes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

from torch_outboard.after_import import after_import, forget, module_exists
from torch_outboard.integrations.changes import Changes

# States of a library.
ABSENT = "not installed"
UNCHANGED = "unchanged"
WAITING = "told when imported"
TOLD = "told"
CHANGED = "place has changed"


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
    change: Callable[[ModuleType | None, Changes], None]
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
        distribution: its name in package metadata.
        tried: the versions that the changes were tested with.
        places: where it names devices.
        needs: other libraries to change, too.
    """

    name: str
    distribution: str
    tried: str
    places: tuple[Place, ...]
    needs: tuple[str, ...] = ()

    def version(self) -> str:
        """The installed version; empty if the library is not installed."""
        if importlib.util.find_spec(self.name) is None:
            return ""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return "?"

    def state(self) -> str:
        """The state of the place that is furthest from being enabled."""
        if not self.version():
            return ABSENT
        states = {place.current_state() for place in self.places}
        return next(state for state in (CHANGED, WAITING, UNCHANGED, TOLD) if state in states)
