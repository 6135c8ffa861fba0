"""Values that cost much and have several readers: stored once, for devices that compute in vectors.

Inductor computes a value anew in every kernel that reads it while that takes few loads, and knows
functions that cost more than a load for the device "cpu" alone, and few. A GPU waits for memory; a
processor has a value from its cache sooner than a sine, and from memory about as soon.

Of what is computed on the way from such a value, one node is stored: the last that all ways to its
readers lead through. The derivative of SiLU has two uses of a sigmoid; its product is stored, if
that is what several kernels read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import lowering

from torch_outboard.inductor.passes.meeting_points import MeetingPoints
from torch_outboard.inductor.target import target_of
from torch_outboard.ops.functions.table import costly
from torch_outboard.state import state

aten = torch.ops.aten
# Operators that read elements of what may be computed for them, some of them several times.
_GATHERS = frozenset(
    {aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_select.default, aten.gather.default}
)
_CALLS = frozenset(
    {
        aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default,
        aten.convolution.default, aten.convolution_backward.default,
    }
)  # fmt: skip
_MANY = 1 << 16  # elements, which take longer than a kernel that stores them
_ROW = 16  # elements that are the same, from which on they are computed once


def store_reused(graph: torch.fx.Graph) -> None:
    """Marks such values, which Inductor then stores; a pass after derivatives."""
    points = MeetingPoints(graph, is_pointwise, is_view)
    # Of values that are computed where they are read.
    unstored: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if is_view(node):
            if node.args[0] in unstored:
                unstored.add(node)
        elif is_pointwise(node):
            costs = _costs(node) or not unstored.isdisjoint(node.all_input_nodes)
            taken = any(_is_call(reader) for reader in points.readers(node))
            # What an operator takes is stored: as eager mode would, which reads along memory, and
            # for readers that come before it, too.
            wanted = (costs and _is_spread(node)) or (taken and _is_turned(node))
            wanted |= points.part(node) and (costs or taken)
            if wanted and _pays(node):
                node.meta["inductor_realize_to_strides"] = True
            elif costs:
                unstored.add(node)


def is_pointwise(node: torch.fx.Node) -> bool:
    """Whether each element of a value comes from the elements at its place."""
    return isinstance(node.target, torch._ops.OpOverload) and (
        torch.Tag.pointwise in node.target.tags
        or node.target is torch.ops.prims.convert_element_type.default
    )


def is_view(node: torch.fx.Node) -> bool:
    """Whether a node gives values of another one at other places."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _is_call(node: torch.fx.Node) -> bool:
    """Whether a node is an operator that takes and gives memory."""
    return node.target in lowering.fallbacks or node.target in _CALLS


def _is_turned(node: torch.fx.Node) -> bool:
    """Whether eager mode gives a value another order of dimensions than that of its memory."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or any(not isinstance(x, int) for x in value.shape):
        return False
    following = 1
    for stride, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size > 1 and stride != following:
            return False  # elements share memory, or leave some out
        following *= size
    return not value.is_contiguous()


def _costs(node: torch.fx.Node) -> bool:
    # `aten` and Inductor's operation handlers call scalar functions alike.
    name = node.target._schema.name.partition("::")[2].removeprefix("special_")
    if name == "pow":  # halves of integers are products, and roots
        exponent = node.args[1]
        return not isinstance(exponent, (int, float)) or not float(2 * exponent).is_integer()
    return name in costly()


def _is_spread(node: torch.fx.Node, value: Any = None) -> bool:
    """Whether a reader takes elements so often that computing them each time takes long."""
    value = node.meta.get("val") if value is None else value
    if not isinstance(value, torch.Tensor):
        return False
    return any(_spreads(user, value) for user in node.users)


def _spreads(user: torch.fx.Node, value: torch.Tensor) -> bool:
    result = user.meta.get("val")
    if not isinstance(result, torch.Tensor):
        return False
    sizes = [*value.shape, *result.shape]
    if any(not isinstance(size, int) for size in sizes):
        return False
    if user.target in _GATHERS:
        return result.numel() - value.numel() >= _MANY
    if user.target is aten.expand.default:
        return _computed(value, result) - value.numel() >= _MANY
    return is_view(user) and _is_spread(user, result)


def _computed(value: torch.Tensor, spread: torch.Tensor) -> int:
    """How often elements are computed: once for rows that are all the same."""
    sizes = [1] * (spread.dim() - value.dim()) + list(value.shape)
    row = 1
    for size, length in zip(reversed(sizes), reversed(spread.shape), strict=True):
        if size != 1:
            break
        row *= length
    return spread.numel() // (row if row >= _ROW else 1)


def _pays(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    ours = isinstance(value, torch.Tensor) and value.device.type == state.name
    return ours and target_of(value.device).lanes > 1
