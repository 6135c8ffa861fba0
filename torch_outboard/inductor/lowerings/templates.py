"""The pass over graphs that `max-autotune` asks for: epilogues of products and convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort

from torch_outboard import _C
from torch_outboard.inductor.lowerings import convolutions, products
from torch_outboard.inductor.passes.in_order import hash_of_sources
from torch_outboard.state import state


class UseTemplates(CustomGraphPass):
    """Replaces products and convolutions with what follows them, where that is faster."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        found = [fuse(graph) for fuse in (products.fuse, convolutions.fuse)]
        if any(found):
            # Who uses one of several results may stand before the last.
            stable_topological_sort(graph)
            graph.eliminate_dead_code()

    def uuid(self) -> Any:
        properties = _C.device_properties(_C.current_device())
        device = f"{state.name} {properties.name} {properties.driver_version}"
        return hash_of_sources(), device
