"""Passes over graphs: random numbers, and their order.

Here: sequences of passes, and their cache keys.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

# Folders with functions that write parts of compiled graphs.
_SOURCES = ("inductor", "ops/functions", "ops/sources")


class InOrder(CustomGraphPass):
    """Runs passes in order."""

    def __init__(self, *passes: CustomGraphPass) -> None:
        self.passes = passes

    def __call__(self, graph: torch.fx.Graph) -> None:
        for each in self.passes:
            each(graph)

    def uuid(self) -> Any:
        """The key of PyTorch's caches: the keys of the passes, which have the backend's sources."""
        return tuple(each.uuid() for each in self.passes)


@cache
def hash_of_sources() -> Any:
    """Hash of all Python files that write compiled graphs; PyTorch's function caches only one."""
    root = Path(__file__).parents[2]
    files = (path for folder in _SOURCES for path in (root / folder).rglob("*.py"))
    return get_hash_for_files(tuple(sorted(map(str, files))))
