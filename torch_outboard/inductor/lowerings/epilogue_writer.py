"""The text of an epilogue, to which nodes of a graph are added one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_outboard.inductor.lowerings.epilogue_texts import (
    DTYPES,
    Unfit,
    as_value,
    expression,
    is_known,
    number,
)

aten = torch.ops.aten
Node = torch.fx.Node
RESHAPES = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
# What an operand may go through besides.
VIEWS = (
    *RESHAPES, aten.expand.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims,
)  # fmt: skip
MOST_OPERANDS = 8
_MOST_INNER = 64  # nodes that are computed for one operand


def value_of(node: Node) -> torch.Tensor:
    """The tensor without data that stands for a node's result."""
    value: torch.Tensor = node.meta["val"]
    return value


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are the same for all that a graph is compiled for."""
    return bool(statically_known_true(a == b))


def same_sizes(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


class Places(Protocol):
    """How values relate to the results of an operator."""

    def follows(self, value: torch.Tensor) -> bool:
        """Whether a tensor has an element for each of the results, in the order of these."""

    def lies_alike(self, value: torch.Tensor) -> bool:
        """Whether a tensor that follows the results lies in memory as they do."""

    def of(self, value: torch.Tensor, user: torch.Tensor) -> str:
        """Where a pointwise operator with the result `user` meets the elements of an operand.

        A letter as in csrc/device_kernels/product/epilogue.h; "" if there is none.
        """

    def length(self, place: str) -> Any:
        """Of operands of rows ("r") or of columns ("c")."""


class Writer:
    """What an epilogue computes: of the operator's results, and of operands at their places.

    Operands of rows are computed with by themselves, once for a row: `of_row`.

    Attributes:
        taken: texts of nodes that are computed of the results.
        operands: nodes and the letters of their places.
    """

    def __init__(self, root: Node, places: Places) -> None:
        self.root = root
        self.places = places
        self.taken: dict[Node, str] = {root: "a"}
        self.operands: list[tuple[Node, str]] = []
        self._apart: dict[tuple[Node, str], str] = {}
        self._row_lines: list[str] = []
        self._row_values: list[str] = []
        self._lines: list[str] = []

    def take(self, node: Node) -> bool:
        """Adds a node that uses what is taken; False if that cannot be."""
        if not self._fits(node) or not self.places.follows(value_of(node)):
            return False
        if node.target in RESHAPES:
            self.taken[node] = self.taken[node.args[0]]  # type: ignore[index]
            return True

        def write() -> str:
            text = expression(node, lambda argument: self._argument(argument, node))
            return self._line(self._lines, "t", text, value_of(node))

        return self._try(node, write)

    def add(self, added: Any) -> bool:
        """Adds a tensor to the operator's results; False if that cannot be."""
        text = self.taken[self.root]

        def write() -> str:
            operand = as_value(*self._argument(added, self.root))
            return self._line(self._lines, "t", f"({text} + {operand})", value_of(self.root))

        return self._try(self.root, write)

    @property
    def row_values(self) -> int:
        """How many values of a row the results take."""
        return len(self._row_values)

    @property
    def of_row(self) -> str:
        """Statements that make values of a row."""
        values = [f"k[{i}] = {value};" for i, value in enumerate(self._row_values)]
        return " ".join([*self._row_lines, *values])

    def body(self, results: Sequence[Node]) -> str:
        """Statements that make results of nodes that were taken."""
        ends = [
            f"r[{i}] = {as_value(self.taken[node], _is_mask(node))};"
            for i, node in enumerate(results)
        ]
        return " ".join([*self._lines, *ends])

    def _fits(self, node: Any) -> bool:
        """Whether something is a node with a tensor that an epilogue can have."""
        value = node.meta.get("val") if isinstance(node, Node) else None
        return (
            isinstance(value, torch.Tensor)
            and value.dtype in DTYPES
            and value.device == value_of(self.root).device
        )

    def _try(self, node: Node, write: Callable[[], str]) -> bool:
        """Takes a node by what writes it; if that is unfit, nothing has changed."""
        state = self._state()
        try:
            self.taken[node] = write()
        except Unfit:
            self._restore(state)
            return False
        return True

    def _state(self) -> list[Any]:
        parts = (self._apart, self.operands, self._row_lines, self._row_values, self._lines)
        return [part.copy() for part in parts]

    def _restore(self, state: list[Any]) -> None:
        self._apart, self.operands, self._row_lines, self._row_values, self._lines = state

    @staticmethod
    def _line(lines: list[str], prefix: str, text: str, value: torch.Tensor) -> str:
        name = f"{prefix}{len(lines)}"
        lines.append(f"const {'M' if value.dtype == torch.bool else 'T'} {name} = {text};")
        return name

    # ---- Operands: texts, and whether they are masks

    def _argument(
        self, argument: Any, user: Node, inner: set[Node] | None = None
    ) -> tuple[str, bool]:
        """Of an operator with an element for each result; `inner` as in `_at`."""
        constant = _constant(argument)
        if constant is not None:
            return number(constant), False
        if not self._fits(argument):
            raise Unfit
        if argument in self.taken:
            return self.taken[argument], _is_mask(argument)
        place = self.places.of(value_of(argument), value_of(user))
        if place == "e" and inner is None:
            inner = self._used_only_here(argument, user)
        text, is_mask = self._at(place, argument, inner if place == "e" else None)
        if place != "r":
            return text, is_mask
        value = as_value(text, is_mask)
        if value not in self._row_values:
            self._row_values.append(value)
        kept = f"k[{self._row_values.index(value)}]"
        return (f"({kept} != C(0))" if is_mask else kept), is_mask

    def _at(self, place: str, node: Node, inner: set[Node] | None) -> tuple[str, bool]:
        """Of a node at a place; `inner` are those that can be computed here, None for all."""
        if not place:
            raise Unfit
        text = self._apart.get((node, place))
        if text is None:
            text = self._computed(place, node, inner) or self._operand(place, node)
            self._apart[node, place] = text
        return text, _is_mask(node)

    def _computed(self, place: str, node: Node, inner: set[Node] | None) -> str | None:
        """Text of a node that is computed here; None for one that is not."""
        if node.op != "call_function" or (inner is not None and node not in inner):
            return None

        def along(argument: Any) -> tuple[str, bool]:
            """Of an operator of values of a row, or of a column."""
            constant = _constant(argument)
            if constant is not None:
                return number(constant), False
            if not self._fits(argument):
                raise Unfit
            if not _is_vector(value_of(argument), self.places.length(place)):
                raise Unfit
            return self._at(place, argument, inner)

        state = self._state()
        try:
            if node.target in VIEWS:
                if place == "e":
                    return self._argument(node.args[0], node.args[0], inner)[0]  # type: ignore[arg-type]
                return along(node.args[0])[0]
            text = expression(
                node, (lambda x: self._argument(x, node, inner)) if place == "e" else along
            )
        except Unfit:
            self._restore(state)
            return None
        if place == "r":
            return self._line(self._row_lines, "u", text, value_of(node))
        return self._line(self._lines, "t", text, value_of(node))

    def _operand(self, place: str, node: Node) -> str:
        """Text of what is read from memory."""
        if place == "e":
            # What only exists for this would be written to be read here.
            own = node.op == "call_function" and len(node.users) == 1
            if own and (_is_draw(node) or torch.Tag.pointwise in getattr(node.target, "tags", ())):
                raise Unfit
            if not self.places.lies_alike(value_of(node)):
                raise Unfit
        if (node, place) not in self.operands:
            self.operands.append((node, place))
        if len(self.operands) > MOST_OPERANDS:
            raise Unfit
        name = f"b{self.operands.index((node, place))}"
        return f"({name} != C(0))" if _is_mask(node) else name

    def _used_only_here(self, argument: Node, user: Node) -> set[Node]:
        """Pointwise nodes that `argument` is made of and that nothing else uses."""
        found: set[Node] = set()
        waiting = [argument]
        while waiting and len(found) < _MOST_INNER:
            node = waiting.pop()
            if node in found or node in self.taken or not self._fits(node):
                continue
            known = is_known(node) or node.target in VIEWS
            if known and self.places.follows(value_of(node)):
                found.add(node)
                waiting += node.all_input_nodes
        while True:
            allowed = {*found, *self.taken, user}
            used_elsewhere = {node for node in found if not allowed.issuperset(node.users)}
            if not used_elsewhere:
                return found
            found -= used_elsewhere


def _constant(argument: Any) -> float | None:
    """The value of a number, or of a node that makes a tensor of one."""
    if isinstance(argument, (bool, int, float)):
        return argument
    if isinstance(argument, Node) and argument.target is aten.full.default:
        value = argument.args[1]
        if not argument.args[0] and isinstance(value, (bool, int, float)):
            return value
    return None


def _is_mask(node: Node) -> bool:
    return value_of(node).dtype == torch.bool


def _is_draw(node: Node) -> bool:
    """Whether a node gives random numbers that are computed where they are used."""
    return getattr(node.target, "namespace", "") == "outboard_compiled"


def _is_vector(value: torch.Tensor, length: Any) -> bool:
    """Whether a tensor has one element, or so many in one dimension."""
    if same(value.numel(), 1):
        return True
    long = [size for size in value.shape if not same(size, 1)]
    return len(long) == 1 and same(long[0], length)
