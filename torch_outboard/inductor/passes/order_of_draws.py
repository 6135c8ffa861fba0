"""Keeps operators that draw random numbers in the order of the program.

PyTorch does so itself from 2.13 on. Before that, Inductor moves them to where they need the least
memory, and each then draws what another one draws in eager mode.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.fx_passes import post_grad
from torch.utils._ordered_set import OrderedSet

from torch_outboard.inductor.passes.in_order import hash_of_sources


def pytorch_keeps_it() -> bool:
    return hasattr(post_grad, "_chain_random_ops_for_ordering")


class KeepOrder(CustomGraphPass):
    """Makes each operator that draws depend on the one before; a pass after derivatives."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        from torch._inductor.fx_passes.control_dependencies import preserve_node_ordering

        drawing = [node for node in graph.nodes if _draws(node)]
        before = {node: OrderedSet([last]) for last, node in itertools.pairwise(drawing)}
        if before:
            preserve_node_ordering(graph, before)

    def uuid(self) -> Any:
        """What code in PyTorch's caches depends on."""
        return hash_of_sources()


def _draws(node: torch.fx.Node) -> bool:
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
    )
