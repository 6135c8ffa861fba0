"""Passes over graphs that are one for Inductor, and what its caches know of them."""

from typing import Any

import pytest
import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from torch_outboard.inductor import passes
from torch_outboard.inductor.passes import (
    HostValues,
    InOrder,
    UseOwnNumbers,
    Words,
    hash_of_sources,
)


class Named(CustomGraphPass):
    def __init__(self, name: Any, done: list[Any]) -> None:
        self.name, self.done = name, done

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.done.append(self.name)

    def uuid(self) -> Any:
        return self.name


def test_they_are_called_in_order():
    done: list[Any] = []
    InOrder(Named("a", done), Named("b", done))(torch.fx.Graph())
    assert done == ["a", "b"]


def test_what_caches_depend_on(monkeypatch: pytest.MonkeyPatch):
    assert InOrder(Named("a", []), Named("b", [])).uuid() == ("a", "b")
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
