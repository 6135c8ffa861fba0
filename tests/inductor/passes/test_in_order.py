"""Passes over graphs that are one for Inductor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from torch_outboard.inductor.passes.in_order import InOrder, hash_of_sources
from torch_outboard.inductor.passes.joined_parts import join_parts


class Named(CustomGraphPass):
    def __init__(self, name: Any, done: list[Any]) -> None:
        self.name, self.done = name, done

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.done.append(self.name)

    def uuid(self) -> Any:
        return self.name


def test_they_are_called_in_order():
    done: list[Any] = []
    InOrder(Named("a", done), lambda graph: done.append("b"), Named("c", done))(torch.fx.Graph())
    assert done == ["a", "b", "c"]


def test_what_caches_depend_on():
    assert InOrder(join_parts, Named("a", [])).uuid() == (hash_of_sources(), "join_parts", "a")
    assert InOrder(Named("b", [])).uuid() != InOrder(Named("a", [])).uuid()


@pytest.mark.parametrize("other", [lambda graph: None, Named(None, [])], ids=["function", "pass"])
def test_nothing_is_kept_of_what_nobody_describes(other: Any):
    """A function that is somebody's own may do something else in the next process."""
    assert InOrder(join_parts, other).uuid() is None
