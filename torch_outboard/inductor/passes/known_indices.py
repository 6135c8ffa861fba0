"""Replaces indices that are known when a graph is compiled, and repeat elements, by views.

The decomposition of nearest-neighbour `interpolate` computes an index for each row and column and
reads the image there. Its derivative adds at these indices, one element at a time. If each element
is repeated equally often, in neighbouring elements, an expanded dimension replaces the read, and a
sum over it the addition.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_outboard.inductor.passes import add_call
from torch_outboard.state import state

aten = torch.ops.aten
Node = torch.fx.Node
_READS = (aten._unsafe_index.Tensor, aten.index.Tensor)
_ADDS = (aten.index_put.default, aten._unsafe_index_put.default)
_MOST_INDICES = 1 << 16  # elements of a value that is computed when the graph is compiled


def repeat_by_views(graph: torch.fx.Graph) -> None:
    """Replaces such reads and additions, before the graph is split."""
    found = False
    known: dict[Node, torch.Tensor | None] = {}
    for node in list(graph.nodes):
        if node.target in _READS:
            found |= _repeat(graph, node, known)
        elif node.target in _ADDS:
            found |= _add_up(graph, node, known)
    if found:
        graph.eliminate_dead_code()


def _repeat(graph: torch.fx.Graph, node: Node, known: dict[Node, torch.Tensor | None]) -> bool:
    source, indices = node.args
    if not isinstance(source, Node):
        return False
    times = _times(source, node, indices, known)
    if times is None or not node.meta["val"].is_contiguous():
        return False
    sizes = list(source.meta["val"].shape)
    apart = [part for size, count in zip(sizes, times, strict=True) for part in _split(size, count)]
    single = [1 if at else part for part, at in apart]
    with graph.inserting_before(node):
        value = add_call(graph, node, aten.view.default, source, single)
        value = add_call(graph, node, aten.expand.default, value, [part for part, _ in apart])
        value = add_call(
            graph, node, aten.clone.default, value, memory_format=torch.contiguous_format
        )
        value = add_call(graph, node, aten.view.default, value, list(node.meta["val"].shape))
    node.replace_all_uses_with(value)
    return True


def _add_up(graph: torch.fx.Graph, node: Node, known: dict[Node, torch.Tensor | None]) -> bool:
    into, indices, values, *accumulates = node.args
    if not isinstance(into, Node) or not isinstance(values, Node) or accumulates[:1] != [True]:
        return False
    if into.target is not aten.full.default or into.args[1] != 0:
        return False
    times = _times(into, values, indices, known)
    if times is None:
        return False
    sizes = list(into.meta["val"].shape)
    apart = [part for size, count in zip(sizes, times, strict=True) for part in _split(size, count)]
    summed = [at for at, (_, repeated) in enumerate(apart) if repeated]
    with graph.inserting_before(node):
        value = add_call(graph, node, aten.view.default, values, [part for part, _ in apart])
        value = add_call(
            graph, node, aten.sum.dim_IntList, value, summed, dtype=into.meta["val"].dtype
        )
    node.replace_all_uses_with(value)
    return True


def _split(size: int, times: int) -> list[tuple[int, bool]]:
    """A dimension of `size` and, if its elements are repeated, one of `times` for the repeats."""
    return [(size, False)] if times == 1 else [(size, False), (times, True)]


def _times(
    small: Node, large: Node, indices: Any, known: dict[Node, torch.Tensor | None]
) -> list[int] | None:
    """Repeats of each element along each dimension; None if they differ or are unknown."""
    value, repeated = small.meta.get("val"), large.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(repeated, torch.Tensor):
        return None
    if value.device.type != state.name or value.dim() != repeated.dim() or value.is_complex():
        return None
    sizes = [*value.shape, *repeated.shape]
    if any(not isinstance(size, int) for size in sizes) or 0 in sizes or value.dtype == torch.bool:
        return None
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    if not dims or dims != list(range(dims[0], dims[0] + len(dims))):
        return None
    if any(value.shape[d] != repeated.shape[d] for d in range(value.dim()) if d not in dims):
        return None  # values to add may be broadcast
    times = [1] * value.dim()
    for at, dim in enumerate(dims):
        size = repeated.shape[dim]
        times[dim], rest = divmod(size, value.shape[dim])
        places = _known(indices[dim], known) if rest == 0 else None
        # One index per element along the dimension, in a shape that broadcasts with the others.
        shape = [1] * at + [size] + [1] * (len(dims) - at - 1)
        if places is None or places.dtype not in (torch.int32, torch.int64):
            return None
        if places.numel() != size or list(places.shape) != shape[len(dims) - places.dim() :]:
            return None
        with unset_fake_temporarily():
            if not torch.equal(places.flatten(), torch.arange(size) // times[dim]):
                return None
    return times if max(times) > 1 else None


def _known(node: Node, known: dict[Node, torch.Tensor | None]) -> torch.Tensor | None:
    """The value of a node that does not depend on the graph's inputs; else None."""
    if node not in known:
        known[node] = _computed(node, known)
    return known[node]


def _computed(node: Node, known: dict[Node, torch.Tensor | None]) -> torch.Tensor | None:
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor):
        return None
    if not isinstance(value.numel(), int) or value.numel() > _MOST_INDICES:
        return None
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return None
    if (
        target.namespace not in ("aten", "prims")
        or torch.Tag.nondeterministic_seeded in target.tags
    ):
        return None
    given: dict[Node, torch.Tensor] = {}
    for source in node.all_input_nodes:
        part = _known(source, known)
        if part is None:
            return None
        given[source] = part
    arguments = torch.fx.node.map_arg(node.args, lambda x: given[x])
    named = dict(torch.fx.node.map_arg(node.kwargs, lambda x: given[x]))
    if "device" in named:
        named["device"] = torch.device("cpu")
    with unset_fake_temporarily(), torch.no_grad():
        result = target(*arguments, **named)
    return result if isinstance(result, torch.Tensor) else None
