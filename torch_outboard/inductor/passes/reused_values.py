"""Values that cost much and have several readers: stored once, for devices that compute in vectors.

Inductor computes a value anew in every kernel that reads it while that takes few loads, and knows
functions that cost more than a load for the device "cpu" alone. A GPU waits for memory; a processor
waits for a sine where what it would load is in its cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from torch_outboard.inductor.target import target_of
from torch_outboard.ops.functions.table import costly
from torch_outboard.state import state

# Bytes of a value that the cache of one processor has room for, beside others. From memory it would
# take as long as computing it: softmax over 4 MB was no faster.
_CACHED = 1 << 18


class StoreReused(CustomGraphPass):
    """Marks such values, which Inductor then stores; a pass after derivatives.

    Args:
        then: a pass that follows it.
    """

    def __init__(self, then: CustomGraphPass | None = None) -> None:
        self.then = then

    def __call__(self, graph: torch.fx.Graph) -> None:
        # Of values that are computed where they are read.
        unstored: set[torch.fx.Node] = set()
        for node in graph.nodes:
            if _is_view(node):
                if node.args[0] in unstored:
                    unstored.add(node)
            elif _is_pointwise(node) and (
                _name(node) in costly() or not unstored.isdisjoint(node.all_input_nodes)
            ):
                if _readers(node) > 1 and _pays(node):
                    node.meta["inductor_realize_to_strides"] = True
                else:
                    unstored.add(node)
        if self.then is not None:
            self.then(graph)

    def uuid(self) -> Any:
        """What code in PyTorch's caches depends on."""
        return [get_hash_for_files((str(Path(__file__)),)), self.then and self.then.uuid()]


def _is_pointwise(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and (
        torch.Tag.pointwise in node.target.tags
        or node.target is torch.ops.prims.convert_element_type.default
    )


def _is_view(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _name(node: torch.fx.Node) -> str:
    """Of the scalar function, which Inductor's operation handlers and `aten` call alike."""
    return node.target._schema.name.partition("::")[2].removeprefix("special_")


def _readers(node: torch.fx.Node) -> int:
    """How many compute with a value, or with a view of it."""
    return sum(_readers(user) if _is_view(user) else 1 for user in node.users)


def _pays(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type != state.name:
        return False
    return target_of(value.device).lanes > 1 and _count(value) * value.itemsize <= _CACHED


def _count(value: torch.Tensor) -> float:
    """Elements; with open sizes those of the first call, since asking would make them fixed."""
    count = value.numel()
    if isinstance(count, int):
        return count
    known = count.node.hint
    return known if isinstance(known, int) else float("inf")
