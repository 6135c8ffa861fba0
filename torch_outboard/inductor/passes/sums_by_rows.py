"""Sums over images and places, as in gradients of biases: over places first.

What is summed is often stored as well, row by row. A loop over the rows of all images for each
channel reads it once more; one over places is a part of the kernel that computes it, and what is
left is a sum of few numbers.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.inductor.passes.common import add_call
from torch_outboard.inductor.passes.reused_values import is_pointwise, is_view
from torch_outboard.inductor.target import target_of
from torch_outboard.state import state

aten = torch.ops.aten
Node = torch.fx.Node
# Places of a row, and sums of an element: fewer are not worth it, more are worth a kernel.
_LEAST_PLACES, _MOST_IMAGES = 64, 64


def sum_rows_first(graph: torch.fx.Graph) -> None:
    """Splits such sums of what is computed and stored; a pass after derivatives."""
    for node in list(graph.nodes):
        if node.target is aten.sum.dim_IntList and _suits(node):
            _split(graph, node)


def _suits(node: Node) -> bool:
    source: Any = node.args[0]
    dims: Any = node.args[1] or ()
    value = source.meta.get("val") if isinstance(source, Node) else None
    if not isinstance(value, torch.Tensor) or value.device.type != state.name:
        return False
    if value.dim() < 3 or sorted(dim % value.dim() for dim in dims) != _all_but_channels(value):
        return False
    if any(not isinstance(size, int) for size in value.shape) or not value.is_contiguous():
        return False
    target, images, channels = target_of(value.device), *value.shape[:2]
    return (
        value.is_floating_point()
        and node.meta["val"].is_floating_point()
        and target.lanes > 1
        and 1 < images <= _MOST_IMAGES
        and value.numel() >= images * channels * _LEAST_PLACES
        and images * channels >= 2 * target.processors
        and _is_computed_and_stored(source)
    )


def _all_but_channels(value: torch.Tensor) -> list[int]:
    return [0, *range(2, value.dim())]


def _is_computed_and_stored(node: Any) -> bool:
    """Whether a kernel computes a value that others than sums read."""
    while is_view(node):
        node = node.args[0]
    return is_pointwise(node) and any(
        user.target is not aten.sum.dim_IntList and not is_pointwise(user)
        for user in _readers(node)
    )


def _readers(node: Node) -> list[Node]:
    return [
        reader for user in node.users for reader in (_readers(user) if is_view(user) else [user])
    ]


def _split(graph: torch.fx.Graph, node: Node) -> None:
    source: Any = node.args[0]
    value, result = source.meta["val"], node.meta["val"]
    keeps = len(node.args) > 2 and bool(node.args[2])
    exact = result.dtype if result.dtype == torch.float64 else torch.float32
    with graph.inserting_before(node):
        places = list(range(2, value.dim()))
        rows = add_call(graph, node, aten.sum.dim_IntList, source, places, keeps, dtype=exact)
        total = add_call(graph, node, aten.sum.dim_IntList, rows, [0], keeps, dtype=result.dtype)
    node.replace_all_uses_with(total)
    graph.erase_node(node)
