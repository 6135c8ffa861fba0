"""Where the ways that a value takes through a graph meet again.

A node is met by all ways from a value to its readers if it dominates the value in the graph read
backwards; see K. D. Cooper, T. J. Harvey, K. Kennedy, "A simple, fast dominance algorithm" (2001),
which needs one round where there are no loops.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Node = torch.fx.Node


class MeetingPoints:
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
            self._next[node] = common = self._meeting(list(uses))
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

    def _meeting(self, nodes: list[Node]) -> Node | None:
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
        """Whether a way to the meeting point leads through a view."""
        end, seen, rest = self._next[node], {node}, [node]
        while rest:
            for user, in_place in self._uses[rest.pop()].items():
                if not in_place:
                    return True
                if user is not end and user not in seen:
                    seen.add(user)
                    rest.append(user)
        return False
