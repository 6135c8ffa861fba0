"""Passes over graphs that are one for Inductor, and what its caches know of them."""

import pytest
import torch

from torch_outboard.inductor import passes
from torch_outboard.inductor.passes import (
    HostValues,
    UseOwnNumbers,
    Words,
    hash_of_sources,
)


def test_another_rewrite_is_called_first():
    graphs: list[torch.fx.Graph] = []
    graph = torch.fx.Graph()
    UseOwnNumbers(Words, graphs.append)(graph)
    assert graphs == [graph]


def test_what_caches_depend_on(monkeypatch: pytest.MonkeyPatch):
    numbers = [UseOwnNumbers(kind).uuid() for kind in (Words, HostValues)]
    assert [uuid[0] for uuid in numbers] == [hash_of_sources()] * 2
    assert numbers[0] != numbers[1]
    monkeypatch.setattr(passes, "get_hash_for_files", lambda files: files)
    sources = hash_of_sources.__wrapped__()
    for name in ("scheduling.py", "kernel/body.py", "opencl/printer.py", "passes.py"):
        assert any(source.endswith(f"inductor/{name}") for source in sources)
    # Functions of flex_attention are in a graph with the helpers that they call.
    for name in ("functions/table.py", "sources/value_types.py"):
        assert any(source.endswith(f"ops/{name}") for source in sources)
