"""Calls that passes add to graphs, with what later passes need to know of them."""

from __future__ import annotations

from typing import Any

import torch

Node = torch.fx.Node


def add_call(graph: torch.fx.Graph, at: Node, target: Any, *arguments: Any, **named: Any) -> Node:
    """A call where the graph inserts nodes, that is part of what becomes of the node `at`."""
    node = graph.call_function(target, arguments, named)
    values = torch.fx.node.map_arg(arguments, lambda x: x.meta["val"])
    with at.meta["val"].fake_mode:
        node.meta = {**at.meta, "val": target(*values, **named)}
    node.meta.pop("tensor_meta", None)
    return node
