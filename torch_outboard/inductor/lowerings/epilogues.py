"""What follows a product or a convolution, as an epilogue of the kernel that stores its results.

From the operator on, pointwise operators are taken one by one, as long as each needs nothing that
is computed of the results in other ways. What only they use is computed with them, such as the
factors of a batch norm in inference, or the derivative of GELU. Values that others use are stored:
an epilogue has up to three results. Sums are not rounded before what follows.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.inductor.lowerings.epilogue_writer import Node, Places, Writer, value_of

MOST_RESULTS = 3
# Arguments of an operator that ends in an epilogue.
SCHEMA = "Tensor[] operands, str of_row, int row_values, str body, str places, str results"
_ROUNDS = 7
_WORTH = 0.97


@dataclass
class Epilogue:
    """An epilogue, and the nodes that it replaces.

    Attributes:
        root, last: the operator, and the last of the nodes.
        results: the nodes that others use, of those that are replaced.
        operands: nodes; `places` has a letter for each.
        of_row, row_values, body: as in csrc/device_kernels/product/epilogue.h.
    """

    root: Node
    last: Node
    results: list[Node]
    operands: list[Node]
    places: str
    of_row: str
    row_values: int
    body: str

    @property
    def reads(self) -> bool:
        """Whether operands of the size of the results are read."""
        return "e" in self.places

    @property
    def keeps(self) -> bool:
        """Whether more than one result is stored."""
        return len(self.results) > 1

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
        root, nodes[-1], results, operands, letters, writer.of_row, writer.row_values,
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
    with graph.inserting_before(epilogue.last):
        call = graph.call_function(target, (*arguments, *epilogue.arguments))
        call.meta.update(epilogue.last.meta)
        call.meta["val"] = []
        for place, node in enumerate(epilogue.results):
            value = torch.empty_like(product, dtype=value_of(node).dtype)
            call.meta["val"].append(value)
            result = graph.call_function(operator.getitem, (call, place))
            result.meta.update(node.meta)
            result.meta["val"] = value
            if value_of(node).dim() != value.dim():
                sizes = list(value_of(node).shape)
                result = graph.call_function(torch.ops.aten.reshape.default, (result, sizes))
                result.meta.update(node.meta)
            node.replace_all_uses_with(result)


# ---- Measuring


class StandIn:
    """What stands for an epilogue while it is measured, with the same traffic of memory.

    Args:
        dtype: of results.
        other: what `reads` reads, laid out like the results.
        added: a tensor that is part of the operator in eager mode, `place` the letter of it.
        reads: whether operands of the size of the results are read.
        keeps: whether more than one result is stored.
    """

    def __init__(
        self, dtype: torch.dtype, other: torch.Tensor, added: torch.Tensor | None, place: str,
        reads: bool, keeps: bool,
    ) -> None:  # fmt: skip
        operands = [tensor for tensor in (added, other if reads else None) if tensor is not None]
        names = [f"b{i}" for i in range(len(operands))]
        last = " + ".join(["a", *names])
        texts = [f"ob_relu({last})", *([last] if keeps else [])]
        body = " ".join(f"r[{i}] = {text};" for i, text in enumerate(texts))
        places = ("" if added is None else place) + ("e" if reads else "")
        names_of_dtypes = ",".join([str(dtype).partition(".")[2]] * len(texts))
        self.arguments = operands, "", 0, body, places, names_of_dtypes
        self._other = other if reads else None
        self._keeps = keeps

    def follow(self, result: torch.Tensor) -> None:
        """A kernel that does the same with a result that was stored."""
        if self._other is not None:
            torch.add(result, self._other, out=None if self._keeps else result)
        elif self._keeps:
            torch.relu(result)
        else:
            torch.relu_(result)


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
