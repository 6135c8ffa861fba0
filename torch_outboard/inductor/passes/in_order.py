"""Several passes over a graph as one: Inductor has room for one at each place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

_BACKEND = Path(__file__).parents[1]


class InOrder(CustomGraphPass):
    """Passes, one after the other.

    Args:
        passes: what is called with a graph; one with a `uuid` says what else it depends on.
    """

    def __init__(self, *passes: Callable[[torch.fx.Graph], None]) -> None:
        self.passes = passes

    def __call__(self, graph: torch.fx.Graph) -> None:
        for each in self.passes:
            each(graph)

    def uuid(self) -> Any:
        """What code in PyTorch's caches depends on: the backend's sources, and each pass."""
        described = [
            each.uuid() if isinstance(each, CustomGraphPass) else getattr(each, "__name__", "")
            for each in self.passes
        ]
        return hash_of_sources(), *described


def hash_of_sources() -> Any:
    """Of all files of the backend."""
    return get_hash_for_files(tuple(sorted(str(path) for path in _BACKEND.rglob("*.py"))))
