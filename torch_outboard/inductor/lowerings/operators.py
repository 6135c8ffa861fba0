"""Operators of PyTorch whose lowering differs for the device.

Convolutions: the device's kernel adds the bias. Inductor would add it in a separate kernel, and
store the sum once more unless only a pointwise kernel follows.

Complex numbers: kernels of graphs do not compute with them, eager kernels do. Inductor calls eager
kernels for overloads of operators with complex arguments. But its passes insert calls of packets,
such as the copy that as_strided_scatter writes into.

Embedding bags: PyTorch's meta function describes the results of CUDA's kernel. The device's results
have the sizes of CPU's: bag_size has no entry for the last offset, and max_indices has elements in
all modes. Compiled code checks these sizes, from 2.14 on empty ones, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering

from torch_outboard.state import state

aten = torch.ops.aten
# Packets that passes of Inductor insert, with the overload that they mean.
_PACKETS = {aten.clone: aten.clone.default}
_BAGS = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
_MAXIMUM = 2  # the mode "max"
_SIZES, _PLACES = 2, 3  # positions of bag_size and max_indices among the results


def define_lowerings() -> None:
    """Changes the lowerings of these operators; further calls change nothing."""
    convolution = aten.convolution.default
    _change(convolution, _with_bias(lowering.lowerings[convolution]))
    for packet, overload in _PACKETS.items():
        _change(packet, _by_eager_kernels(overload, lowering.lowerings[packet]))
    for overload in _BAGS:
        _change(overload, _with_sizes_of_bags(overload, lowering.lowerings[overload]))


def _change(operator: Any, lower: Any) -> None:
    if not hasattr(lowering.lowerings[operator], "outboard"):
        lower.outboard = True
        lowering.lowerings[operator] = lower


def _is_ours(x: Any) -> bool:
    return isinstance(x, ir.IRNode) and x.get_device().type == state.name


def _with_bias(original: Any) -> Any:
    """Passes the bias to convolutions of the device."""
    call = lowering.fallback_handler(aten.convolution.default, add_to_fallback_set=False)

    def lower(x: Any, weight: Any, bias: Any, *arguments: Any, **named: Any) -> Any:
        chosen = call if _is_ours(x) and bias is not None else original
        return chosen(x, weight, bias, *arguments, **named)

    return lower


def _by_eager_kernels(overload: torch._ops.OpOverload, original: Any) -> Any:
    """Calls eager kernels for complex tensors of the device."""

    def lower(x: Any, *arguments: Any, **named: Any) -> Any:
        if _is_ours(x) and x.get_dtype().is_complex:
            call = lowering.fallback_handler(overload, add_to_fallback_set=False)
            return call(x, *arguments, **named)
        return original(x, *arguments, **named)

    return lower


def describe_bags(graph: torch.fx.Graph) -> None:
    """Corrects the described size of bag_size, before the graph is split."""
    for node in graph.nodes:
        if node.target in _BAGS and node.meta["val"][0].device.type == state.name:
            values = list(node.meta["val"])
            values[_SIZES] = values[_SIZES][: values[0].shape[0]]
            node.meta["val"] = tuple(values)
            for user in node.users:
                user.meta["val"] = values[user.args[1]]


def _with_sizes_of_bags(overload: torch._ops.OpOverload, original: Any) -> Any:
    """Corrects the size of bag_size in graphs of the device, and empties unused max_indices."""
    mode_at = [argument.name for argument in overload._schema.arguments].index("mode")

    def lower(weight: Any, *arguments: Any, **named: Any) -> Any:
        results = list(original(weight, *arguments, **named))
        if not _is_ours(weight):
            return results
        sizes, places = results[_SIZES], results[_PLACES]
        sizes.data.data.layout.size = [results[0].get_size()[0]]
        given = (weight, *arguments)
        mode = given[mode_at] if len(given) > mode_at else named.get("mode", 0)
        if mode != _MAXIMUM:
            dtype, device = places.get_dtype(), places.get_device()
            results[_PLACES] = lowering.empty([0], dtype=dtype, device=device)
        return results

    return lower
