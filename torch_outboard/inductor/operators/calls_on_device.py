"""Operators that code for the CPU calls on the device: those that draw, and an extension's own.

Such an operator has a twin that takes and gives CPU tensors, and calls the operator with tensors of
the current device (csrc/cpu_kernels/compiled/calls_on_device.cpp).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.lowering import fallbacks, lowerings, make_fallback

from torch_outboard import _C

_LIBRARY = torch.library.Library("outboard_on_device", "FRAGMENT")
_twins: dict[torch._ops.OpOverload, torch._ops.OpOverload] = {}


def runs_on_device(operator: torch._ops.OpOverload) -> bool:
    """Whether an operator can have a twin: it writes to no argument, and its results are new."""
    schema = operator._schema
    return (
        operator.has_kernel_for_dispatch_key(torch._C.DispatchKey.PrivateUse1)
        or operator.namespace == "aten"
    ) and not any(part.alias_info for part in (*schema.arguments, *schema.returns))


def on_device(operator: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The twin of an operator; defined when it is first asked for."""
    if operator not in _twins:
        _twins[operator] = _define(operator)
    return _twins[operator]


def _define(operator: torch._ops.OpOverload) -> torch._ops.OpOverload:
    overload = operator._schema.overload_name
    name = _C.define_call_on_device(operator._schema.name, overload)

    def fake(*given: Any, **named: Any) -> Any:
        return operator(*given, **named)

    torch.library.register_fake(f"outboard_on_device::{name}", fake, lib=_LIBRARY)
    twin: torch._ops.OpOverload = getattr(torch.ops.outboard_on_device, name).default
    if twin not in lowerings and twin not in fallbacks:
        make_fallback(twin, warn=False)
    return twin
