"""A module that Python imports at the first access to one of its names.

`import torch` registers the device module, and most programs import PyTorch long before they ask
for a device, or never do.
"""

from __future__ import annotations

import importlib
import types
from typing import Any


class DeferredModule(types.ModuleType):
    """Stands for a module until one of its names is read; then it has all of them.

    What was set before stays. Threads may read at the same time: the import system lets one of them
    import.

    Args:
        name: of the module, as it is imported.
    """

    def __getattr__(self, name: str) -> Any:
        # `inspect` asks every module for its file.
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
            if own.get(name) is None:  # as `__doc__` and `__spec__` are until now
                own[name] = value
        self.__class__ = types.ModuleType  # type: ignore[assignment]
