"""Operators of PyTorch whose lowering differs for the device.

Convolutions: the device's kernel adds the bias. Inductor would add it in a separate kernel, and
store the sum once more unless only a pointwise kernel follows.

Complex numbers: kernels of graphs do not compute with them, eager kernels do. Inductor calls eager
kernels for overloads of operators with complex arguments. But its passes insert calls of the packet
`clone`, such as the copy that as_strided_scatter writes into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir, lowering

from torch_outboard.state import state

aten = torch.ops.aten


def define_lowerings() -> None:
    """Changes the lowerings of these operators; further calls change nothing."""
    convolution = aten.convolution.default
    _call(convolution, convolution, lambda x, weight, bias, *_, **__: bias is not None)
    _call(aten.clone, aten.clone.default, lambda x, *_, **__: x.get_dtype().is_complex)


def _call(operator: Any, kernel: torch._ops.OpOverload, suits: Callable[..., bool]) -> None:
    """Makes graphs call an eager kernel where `suits(*arguments)` for a tensor of the device."""
    original = lowering.lowerings[operator]
    if hasattr(original, "outboard"):
        return
    call = lowering.fallback_handler(kernel, add_to_fallback_set=False)

    def lower(*arguments: Any, **named: Any) -> Any:
        chosen = call if _is_ours(arguments[0]) and suits(*arguments) else original
        return chosen(*arguments, **named)

    lower.outboard = True
    lowering.lowerings[operator] = lower


def _is_ours(x: Any) -> bool:
    return isinstance(x, ir.IRNode) and x.get_device().type == state.name
