"""A device module that is imported later.

`import torch` registers the device module. Most programs use a device much later, or never, so
Python imports it at the first access to one of its names.
"""

from __future__ import annotations

import importlib
import types
from typing import Any


class DeferredModule(types.ModuleType):
    """A placeholder for a module; the first read of a name loads all names of the module.

    Attributes set before stay. Threads may read concurrently: the import system lets only one of
    them import.

    Args:
        name: the full name of the module.
    """

    def __getattr__(self, name: str) -> Any:
        # `inspect` reads the file of every module.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._become()
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        self._become()
        return dir(self)

    def _become(self) -> None:
        module = importlib.import_module(self.__name__)
        own = self.__dict__
        for name, value in vars(module).items():
            if own.get(name) is None:  # `__doc__` and `__spec__` are None until here
                own[name] = value
        self.__class__ = types.ModuleType  # type: ignore[assignment]
