"""Complex numbers, which kernels of graphs do not compute with: eager kernels do.

Inductor calls eager kernels for overloads of operators with complex arguments. What its own passes
put into a graph, such as the copy that as_strided_scatter writes into, is no overload.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering

from torch_outboard.state import state

_aten = torch.ops.aten
# Packets that passes of Inductor write, by the overload that is meant.
_OVERLOADS = {_aten.clone: _aten.clone.default}


def define_lowerings() -> None:
    """Makes packets of operators with complex tensors of the device call eager kernels."""
    for packet, overload in _OVERLOADS.items():
        original = lowering.lowerings[packet]
        if not hasattr(original, "calls_eager_kernels"):
            lowering.lowerings[packet] = _lower(overload, original)


def _lower(overload: torch._ops.OpOverload, original: Any) -> Any:
    def lower(x: Any, *arguments: Any, **named: Any) -> Any:
        ours = isinstance(x, ir.IRNode) and x.get_device().type == state.name
        if ours and x.get_dtype().is_complex:
            call = lowering.fallback_handler(overload, add_to_fallback_set=False)
            return call(x, *arguments, **named)
        return original(x, *arguments, **named)

    lower.calls_eager_kernels = True
    return lower
