"""Sums of tensors that are zero but for a part of each: one concatenation.

The derivative of indexing the same tensor several times, as attention does for queries, keys and
values, adds the gradients of all parts, each among zeros.
"""

from __future__ import annotations

import torch

from torch_outboard.inductor.passes.common import add_call
from torch_outboard.state import state

aten = torch.ops.aten
Node = torch.fx.Node
# A part: where it begins and ends along a dimension, and its node.
Part = tuple[int, int, Node]


def join_parts(graph: torch.fx.Graph) -> None:
    """Replaces such sums; a pass after derivatives."""
    found = False
    for node in reversed(list(graph.nodes)):
        if node.target is aten.add.Tensor and node.users:
            found |= _join(graph, node)
    if found:
        graph.eliminate_dead_code()


def _join(graph: torch.fx.Graph, node: Node) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type != state.name:
        return False
    terms = _terms(node)
    parts = [_part(term, value) for term in terms or ()]
    if len(parts) < 2 or any(part is None for part in parts):
        return False
    dims = {part[0] for part in parts if part is not None}
    if len(dims) != 1:
        return False
    dim = dims.pop()
    ranges = sorted((part[1] for part in parts if part is not None), key=lambda part: part[0])
    ends = [end for _, end, _ in ranges]
    if any(begin < end for (begin, _, _), end in zip(ranges[1:], ends, strict=False)):
        return False  # they overlap
    with graph.inserting_before(node):
        joined: list[Node] = []
        at = 0
        for begin, end, part in [*ranges, (value.shape[dim], value.shape[dim], None)]:
            if begin > at:
                sizes = [*value.shape[:dim], begin - at, *value.shape[dim + 1 :]]
                named = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
                joined.append(add_call(graph, node, aten.full.default, sizes, 0, **named))
            if part is not None:
                is_row = part.meta["val"].dim() < value.dim()
                joined.append(
                    add_call(graph, node, aten.unsqueeze.default, part, dim) if is_row else part
                )
            at = end
        result = add_call(graph, node, aten.cat.default, joined, dim)
    node.replace_all_uses_with(result)
    return True


def _terms(node: Node) -> list[Node] | None:
    """What is added up, by nothing but additions of which nobody else reads the sums."""
    if node.target is not aten.add.Tensor:
        return [node]
    if len(node.args) != 2 or node.kwargs or not all(isinstance(x, Node) for x in node.args):
        return None
    terms: list[Node] = []
    for term in node.all_input_nodes if node.args[0] is not node.args[1] else []:
        found = _terms(term) if len(term.users) == 1 else None
        if found is None:
            return None
        terms += found
    return terms or None


def _part(node: Node, whole: torch.Tensor) -> tuple[int, Part] | None:
    """The dimension along which a tensor has its part, and that."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or node.kwargs:
        return None
    # Comparing open sizes would bind the graph to those that compare alike.
    if any(not isinstance(size, int) for size in (*value.shape, *whole.shape)):
        return None
    if value.shape != whole.shape or value.dtype != whole.dtype:
        return None
    if node.target is aten.select_scatter.default:
        zeros, part, dim, begin = node.args
        length, step = 1, 1
    elif node.target is aten.slice_scatter.default:
        given = (*node.args, *(0, None, None, 1)[len(node.args) - 2 :])
        zeros, part, dim, begin, _, step = given
        dim, begin = dim or 0, begin or 0
    else:
        return None
    if not isinstance(zeros, Node) or not isinstance(part, Node) or step != 1:
        return None
    if not isinstance(dim, int) or not isinstance(begin, int) or not _is_zero(zeros):
        return None
    content = part.meta.get("val")
    if not isinstance(content, torch.Tensor) or content.dtype != whole.dtype:
        return None
    dim %= whole.dim()
    if node.target is aten.slice_scatter.default:
        length = content.shape[dim]
    size = whole.shape[dim]
    begin = max(begin + size, 0) if begin < 0 else begin
    return (dim, (begin, begin + length, part)) if begin + length <= size else None


def _is_zero(node: Node) -> bool:
    return node.target is aten.full.default and node.args[1] == 0
