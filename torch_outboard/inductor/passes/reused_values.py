"""Values that cost much and have several readers: stored once, for devices that compute in vectors.

Inductor computes a value anew in every kernel that reads it while that takes few loads, and knows
functions that cost more than a load for the device "cpu" alone, and few. A GPU waits for memory; a
processor has a value from its cache sooner than a sine, and from memory about as soon.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from torch_outboard.inductor.target import target_of
from torch_outboard.ops.functions.table import costly
from torch_outboard.state import state


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
                _costs(node) or not unstored.isdisjoint(node.all_input_nodes)
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


def _costs(node: torch.fx.Node) -> bool:
    # `aten` and Inductor's operation handlers call scalar functions alike.
    name = node.target._schema.name.partition("::")[2].removeprefix("special_")
    if name == "pow":  # halves of integers are products, and roots
        exponent = node.args[1]
        return not isinstance(exponent, (int, float)) or not float(2 * exponent).is_integer()
    return name in costly()


def _readers(node: torch.fx.Node) -> int:
    """How many compute with a value, or with a view of it."""
    return sum(_readers(user) if _is_view(user) else 1 for user in node.users)


def _pays(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    ours = isinstance(value, torch.Tensor) and value.device.type == state.name
    return ours and target_of(value.device).lanes > 1
