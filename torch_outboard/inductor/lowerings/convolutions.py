"""Convolutions with a bias, which the engine's kernel adds.

Inductor would add the bias in a kernel of its own, and store the sum once more where more than a
kernel for elements follows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering

from torch_outboard.state import state

aten = torch.ops.aten


def define_lowerings() -> None:
    """Gives convolutions of the device their bias."""
    original = lowering.lowerings[aten.convolution.default]
    if not hasattr(original, "gives_bias"):
        lowering.lowerings[aten.convolution.default] = _lower(original)


def _lower(original: Any) -> Any:
    call = lowering.fallback_handler(aten.convolution.default, add_to_fallback_set=False)

    def lower(x: Any, weight: Any, bias: Any, *arguments: Any, **named: Any) -> Any:
        ours = isinstance(x, ir.IRNode) and x.get_device().type == state.name
        chosen = call if ours and bias is not None else original
        return chosen(x, weight, bias, *arguments, **named)

    lower.gives_bias = True
    return lower
