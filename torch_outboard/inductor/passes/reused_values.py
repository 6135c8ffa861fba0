"""Values that cost much and have several readers: stored once, for devices that compute in vectors.

Inductor computes a value anew in every kernel that reads it while that takes few loads, and knows
functions that cost more than a load for the device "cpu" alone, and few. A GPU waits for memory; a
processor has a value from its cache sooner than a sine, and from memory about as soon.

Of what is computed on the way from such a value, one node is stored: the last that all ways to its
readers lead through. The derivative of SiLU has two uses of a sigmoid; its product is stored, if
that is what several kernels read. All ways from a value to its readers lead through a node if it
dominates the value in the graph read backwards; see K. D. Cooper, T. J. Harvey, K. Kennedy, "A
simple, fast dominance algorithm" (2001), which needs one round where there are no loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import lowering

from torch_outboard.inductor.target import target_of
from torch_outboard.ops.functions.table import costly
from torch_outboard.state import state

aten = torch.ops.aten
Node = torch.fx.Node
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
    dominators = Dominators(graph, is_pointwise, is_view)
    # Of values that are computed where they are read.
    unstored: set[Node] = set()
    for node in graph.nodes:
        if is_view(node):
            if node.args[0] in unstored:
                unstored.add(node)
        elif is_pointwise(node):
            costs = _costs(node) or not unstored.isdisjoint(node.all_input_nodes)
            taken = any(_is_call(reader) for reader in dominators.readers(node))
            # What an operator takes is stored: as eager mode would, which reads along memory, and
            # for readers that come before it, too.
            wanted = (costs and _is_spread(node)) or (taken and _is_turned(node))
            wanted |= dominators.part(node) and (costs or taken)
            if wanted and _pays(node):
                node.meta["inductor_realize_to_strides"] = True
            elif costs:
                unstored.add(node)


def is_pointwise(node: Node) -> bool:
    """Whether each element of a value comes from the elements at its place."""
    return isinstance(node.target, torch._ops.OpOverload) and (
        torch.Tag.pointwise in node.target.tags
        or node.target is torch.ops.prims.convert_element_type.default
    )


def is_view(node: Node) -> bool:
    """Whether a node gives values of another one at other places."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _is_call(node: Node) -> bool:
    """Whether a node is an operator that takes and gives memory."""
    return node.target in lowering.fallbacks or node.target in _CALLS


def _is_turned(node: Node) -> bool:
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


def _costs(node: Node) -> bool:
    # `aten` and Inductor's operation handlers call scalar functions alike.
    name = node.target._schema.name.partition("::")[2].removeprefix("special_")
    if name == "pow":  # halves of integers are products, and roots
        exponent = node.args[1]
        return not isinstance(exponent, (int, float)) or not float(2 * exponent).is_integer()
    return name in costly()


def _is_spread(node: Node, value: Any = None) -> bool:
    """Whether a reader takes elements so often that computing them each time takes long."""
    value = node.meta.get("val") if value is None else value
    if not isinstance(value, torch.Tensor):
        return False
    return any(_spreads(user, value) for user in node.users)


def _spreads(user: Node, value: torch.Tensor) -> bool:
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


def _pays(node: Node) -> bool:
    value = node.meta.get("val")
    ours = isinstance(value, torch.Tensor) and value.device.type == state.name
    return ours and target_of(value.device).lanes > 1


class Dominators:
    """Of the values that Inductor may compute where they are read.

    Args:
        graph: whose nodes are in an order in which they can be computed.
        is_computed: whether a node is such a value.
        is_view: whether a node is a value of another one, in other places.
    """

    def __init__(
        self,
        graph: torch.fx.Graph,
        is_computed: Callable[[Node], bool],
        is_view: Callable[[Node], bool],
    ) -> None:
        self._is_view = is_view
        # Nodes that use a value, with whether they use it in its own places.
        self._uses: dict[Node, dict[Node, bool]] = {}
        self._next: dict[Node, Node | None] = {}  # that all ways meet; None: they end apart
        self._depth: dict[Node | None, int] = {None: 0}
        for node in reversed(graph.nodes):
            if self._is_view(node):
                continue
            if not is_computed(node):
                self._next[node], self._depth[node] = None, 1
                continue
            self._uses[node] = uses = self._uses_of(node)
            self._next[node] = common = self._dominator(list(uses))
            self._depth[node] = self._depth[common] + 1

    def part(self, node: Node) -> bool:
        """Whether several kernels may read a value, or one of them in different places."""
        uses = self._uses[node]
        if len(uses) == 1:
            return list(uses.values()).count(False) > 0 and self._count(node) > 1
        return len(uses) > 1 and (self._next[node] is None or self._is_moved(node))

    def readers(self, node: Node) -> list[Node]:
        """The nodes that use a value, or a view of it."""
        return list(self._uses[node])

    def _uses_of(self, node: Node, moved: bool = False) -> dict[Node, bool]:
        uses: dict[Node, bool] = {}
        for user in node.users:
            found = self._uses_of(user, True) if self._is_view(user) else {user: not moved}
            for at, in_place in found.items():
                uses[at] = uses.get(at, True) and in_place
        return uses

    def _count(self, node: Node) -> int:
        return sum(self._count(user) if self._is_view(user) else 1 for user in node.users)

    def _dominator(self, nodes: list[Node]) -> Node | None:
        """The first node that all ways from some nodes meet."""
        if not nodes:
            return None
        common: Node | None = nodes[0]
        for other in nodes[1:]:
            at: Node | None = other
            while common is not at:
                if self._depth[common] >= self._depth[at]:
                    assert common is not None
                    common = self._next[common]
                else:
                    assert at is not None
                    at = self._next[at]
        return common

    def _is_moved(self, node: Node) -> bool:
        """Whether a way to the dominator leads through a view."""
        end, seen, rest = self._next[node], {node}, [node]
        while rest:
            for user, in_place in self._uses[rest.pop()].items():
                if not in_place:
                    return True
                if user is not end and user not in seen:
                    seen.add(user)
                    rest.append(user)
        return False
