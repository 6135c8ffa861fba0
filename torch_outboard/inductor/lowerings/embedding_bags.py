"""Bags of embeddings, whose results PyTorch describes as those of CUDA's kernel.

The device's have the sizes of CPU's: numbers of bags without one for the last offset, and places of
rows also where no maximum needs them. Code looks at such sizes, from 2.14 on at empty ones, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering

from torch_outboard.state import state

_OVERLOADS = (
    torch.ops.aten._embedding_bag.default,
    torch.ops.aten._embedding_bag_forward_only.default,
)
_MAXIMUM = 2  # the mode
_SIZES, _PLACES = 2, 3  # among the results


def describe_bags(graph: torch.fx.Graph) -> None:
    """Corrects what is known of sizes of bags, before the graph is split."""
    for node in graph.nodes:
        if node.target in _OVERLOADS and node.meta["val"][0].device.type == state.name:
            values = list(node.meta["val"])
            values[_SIZES] = values[_SIZES][: values[0].shape[0]]
            node.meta["val"] = tuple(values)
            for user in node.users:
                user.meta["val"] = values[user.args[1]]


def define_lowerings() -> None:
    """The same for kernels, in graphs of the device."""
    for overload in _OVERLOADS:
        original = lowering.lowerings[overload]
        if not hasattr(original, "describes_bags"):
            lowering.lowerings[overload] = _lower(overload, original)


def _lower(overload: torch._ops.OpOverload, original: Any) -> Any:
    mode_at = [argument.name for argument in overload._schema.arguments].index("mode")

    def lower(weight: Any, *arguments: Any, **named: Any) -> Any:
        results = list(original(weight, *arguments, **named))
        if not isinstance(weight, ir.IRNode) or weight.get_device().type != state.name:
            return results
        sizes, places = results[_SIZES], results[_PLACES]
        sizes.data.data.layout.size = [results[0].get_size()[0]]
        given = (weight, *arguments)
        mode = given[mode_at] if len(given) > mode_at else named.get("mode", 0)
        if mode != _MAXIMUM:
            dtype, device = places.get_dtype(), places.get_device()
            results[_PLACES] = lowering.empty([0], dtype=dtype, device=device)
        return results

    lower.describes_bags = True
    return lower
