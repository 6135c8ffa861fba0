"""Operators of PyTorch whose lowering differs for the device.

Convolutions: the device's kernel adds the bias. Inductor would add it in a separate kernel, and
store the sum once more unless only a pointwise kernel follows.

Complex numbers: kernels of graphs do not compute with them, eager kernels do. Inductor calls eager
kernels for overloads of operators with complex arguments. But its passes insert calls of the packet
`clone`, such as the copy that as_strided_scatter writes into.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering

from torch_outboard.state import state

aten = torch.ops.aten


def define_lowerings() -> None:
    """Changes the lowerings of these operators; further calls change nothing."""
    convolution = aten.convolution.default
    _change(convolution, _with_bias(lowering.lowerings[convolution]))
    _change(aten.clone, _by_eager_kernels(aten.clone.default, lowering.lowerings[aten.clone]))


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
