"""What follows a product or a convolution, as an epilogue of the kernel that stores its results.

From the operator on, pointwise operators are taken one by one, as long as each needs nothing that
is computed of the results in other ways. What only they use is computed with them, such as the
factors of a batch norm in inference, or the derivative of GELU. Values that others use are stored:
an epilogue has up to three results. Sums are not rounded before what follows.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.fx.experimental import symbolic_shapes

from torch_outboard import _C
from torch_outboard.inductor.lowerings.epilogue_writer import (
    RESHAPES,
    Node,
    Places,
    Writer,
    same_sizes,
    value_of,
)

MOST_RESULTS = 3
TRANSCENDENTAL = ("cos", "erf", "exp", "expm1", "log", "log1p", "sigmoid", "sin", "tanh")
# Arguments of an operator that ends in an epilogue.
SCHEMA = "Tensor[] operands, str of_row, int row_values, str body, str places, str results"
_ROUNDS = 11
_WORTH = 0.95


@dataclass(frozen=True)
class Costs:
    """What the time that an epilogue takes depends on.

    Attributes:
        reads: operands of the size of the results are read.
        keeps: more than one result is stored.
        transcendental: functions such as exponentials are computed.
    """

    reads: bool
    keeps: bool
    transcendental: bool


@dataclass
class Epilogue:
    """An epilogue, and the nodes that it replaces.

    Attributes:
        root: the operator.
        nodes: it and the others that are replaced, in the order of the graph.
        results: the nodes that others use, of those that are replaced.
        operands: nodes; `places` has a letter for each.
        of_row, row_values, body: as in csrc/device_kernels/product/epilogue.h.
    """

    root: Node
    nodes: list[Node]
    results: list[Node]
    operands: list[Node]
    places: str
    of_row: str
    row_values: int
    body: str

    @property
    def costs(self) -> Costs:
        return Costs(
            reads="e" in self.places,
            keeps=len(self.results) > 1,
            transcendental=any(f"ob_{name}(" in self.body for name in TRANSCENDENTAL),
        )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """In the order of SCHEMA."""
        dtypes = ",".join(str(value_of(node).dtype).partition(".")[2] for node in self.results)
        return self.operands, self.of_row, self.row_values, self.body, self.places, dtypes


@cache
def texts(of_row: str, row_values: int, body: str, places: str) -> _C.EpilogueTexts:
    """Four of the arguments, as kernels take them."""
    return _C.EpilogueTexts(of_row, row_values, body, places)


@cache
def dtypes(results: str) -> list[torch.dtype]:
    """The last of the arguments, as kernels take it."""
    return [getattr(torch, name) for name in results.split(",")]


def find(root: Node, places: Places, added: Any = None) -> Epilogue | None:
    """The epilogue of an operator; None if there is nothing to compute.

    Args:
        root: the operator.
        places: how other values relate to its results.
        added: a node that is added to the results before all else.
    """
    most = len(root.graph.nodes)
    while True:
        writer = Writer(root, places)
        if added is not None and not writer.add(added):
            return None
        alone = writer.body([])
        nodes = _take(root, writer, most)
        inside = set(nodes)
        results = [node for node in nodes if not inside.issuperset(node.users)]
        if not results or len(nodes) == 1:
            return None
        if len(results) <= MOST_RESULTS:
            break
        most = len(nodes) - 2
    casts = any(value_of(node).dtype != value_of(root).dtype for node in results)
    if writer.body([]) == alone and not casts:
        return None
    operands = [node for node, _ in writer.operands]
    letters = "".join(place for _, place in writer.operands)
    return Epilogue(
        root, nodes, results, operands, letters, writer.of_row, writer.row_values,
        writer.body(results),
    )  # fmt: skip


def _take(root: Node, writer: Writer, most: int) -> list[Node]:
    """Adds what can be computed of an operator's results, `most` nodes at most.

    Returns the operator and those nodes, in the order of the graph.
    """
    nodes = [root]
    elsewhere: set[Node] = set()  # computed of the results by others
    node = root.next
    while node.op != "root":
        inputs = node.all_input_nodes
        follows_others = not elsewhere.isdisjoint(inputs)
        if any(given in writer.taken for given in inputs):
            if not follows_others and len(nodes) <= most and writer.take(node):
                nodes.append(node)
            else:
                elsewhere.add(node)
        elif follows_others:
            elsewhere.add(node)
        node = node.next
    return nodes


def replace(epilogue: Epilogue, target: Any, arguments: tuple[Any, ...]) -> None:
    """Puts an operator that returns a list in the place of an epilogue and what it belongs to.

    The graph has to be sorted afterwards.
    """
    graph = epilogue.root.graph
    product = value_of(epilogue.root)
    last = epilogue.nodes[-1]
    with graph.inserting_before(last):
        call = graph.call_function(target, (*arguments, *epilogue.arguments))
        call.meta.update(last.meta)
        call.meta["val"] = []
        for place, node in enumerate(epilogue.results):
            value = torch.empty_like(product, dtype=value_of(node).dtype)
            call.meta["val"].append(value)
            result = graph.call_function(operator.getitem, (call, place))
            result.meta.update(node.meta)
            result.meta["val"] = value
            if value_of(node).dim() != value.dim():
                sizes = _sizes(epilogue, node)
                result = graph.call_function(torch.ops.aten.reshape.default, (result, sizes))
                result.meta.update(node.meta)
            node.replace_all_uses_with(result)


def _sizes(epilogue: Epilogue, node: Node) -> Any:
    """Sizes of one of the nodes; open ones as the view has them that cut the rows so."""
    shape = value_of(node).shape
    if all(isinstance(size, int) for size in shape):
        return list(shape)
    views = [one for one in epilogue.nodes if one.target in RESHAPES]
    return next(view.args[1] for view in views if same_sizes(value_of(view).shape, shape))


# ---- Measuring


def hints(sizes: Sequence[Any]) -> tuple[int, ...] | None:
    """Sizes as they were when a graph was traced; None where they were not known."""
    # Before 2.13 it had another name.
    hint = getattr(symbolic_shapes, "optimization_hint", None) or symbolic_shapes.hint_int
    known = [hint(size, fallback=0) for size in sizes]
    return tuple(known) if all(size > 0 for size in known) else None


class StandIn:
    """What stands for an epilogue while it is measured: ReLU or GELU, of sums or of another tensor.

    Args:
        costs: of the epilogue.
        other: what is read, of the dtype of results and laid out like them.
        added: a vector that eager mode adds as part of the operator, and the letter of its place.
    """

    def __init__(
        self, costs: Costs, other: torch.Tensor, added: torch.Tensor | None = None, place: str = ""
    ) -> None:
        operands = [] if added is None else [(added, place)]
        if costs.reads:
            operands.append((other, "e"))
        total = " + ".join(["a", *(f"b{i}" for i in range(len(operands)))])
        text = "ob_relu(t)"
        if costs.transcendental:
            text = "t * C(0.5f) * (C(1.0f) + ob_erf(t * C(0.70710678f)))"
        body = f"const T t = {total}; r[0] = {text};" + (" r[1] = t;" if costs.keeps else "")
        dtypes = ",".join([str(other.dtype).partition(".")[2]] * (1 + costs.keeps))
        places = "".join(letter for _, letter in operands)
        self.arguments = [tensor for tensor, _ in operands], "", 0, body, places, dtypes
        self._costs, self._other = costs, other

    def follow(self, result: torch.Tensor) -> None:
        """A kernel that does about the same with a result that was stored."""
        to = torch.empty_like(result) if self._costs.keeps else result
        if self._costs.transcendental:
            torch.ops.aten.gelu.out(result, out=to)
        elif self._costs.reads:
            torch.add(result, self._other, out=to)
        else:
            torch.clamp_min(result, 0, out=to)


def is_faster(together: Callable[[], Any], separate: Callable[[], Any]) -> bool:
    """Whether the first of two functions is faster; they are called a few times, in turns."""
    times: dict[Callable[[], Any], list[float]] = {separate: [], together: []}
    for turn in range(_ROUNDS + 1):
        for function, taken in times.items():
            torch.accelerator.synchronize()
            start = time.perf_counter()
            function()
            torch.accelerator.synchronize()
            if turn > 0:  # the first one compiles
                taken.append(time.perf_counter() - start)
    # A kernel of a graph has a little less to do before its launch than an eager operator.
    return min(times[together]) < _WORTH * min(times[separate])
