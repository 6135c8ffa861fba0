"""Operators that compiled graphs call on the device, and which of them draw random numbers.

PyTorch tags operators that may draw on some device. Attention has the tag and never draws on this
device: with dropout, eager mode takes another formula.

Code for the CPU calls an operator of the device, one that draws or of an extension, by a twin. The
twin takes and gives CPU tensors, and calls the operator with tensors of the current device
(csrc/cpu_kernels/compiled/calls_on_device.cpp).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._decomp.decompositions_for_rng import extra_random_decomps
from torch._inductor.lowering import fallbacks, lowerings, make_fallback, sdpa_constraint
from torch.utils.checkpoint import CheckpointPolicy

from torch_outboard import _C

_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def is_marked(target: Any) -> bool:
    """Whether PyTorch treats the target of a node as one that draws."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def draws(target: Any) -> bool:
    """Whether the target of a node draws."""
    return is_marked(target) and target is not _ATTENTION


def define(library: torch.library.Library) -> None:
    """Defines attention without the tag; compiled graphs call PyTorch's operator for it."""
    library.define("attention(" + str(_ATTENTION._schema).split("(", 1)[1])
    library.impl("attention", _ATTENTION, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{library.ns}::attention", _ATTENTION, lib=library)
    ours = _attention()
    make_fallback(ours, sdpa_constraint, warn=False)
    lowerings[ours] = lowerings[_ATTENTION]
    _call_what_else_draws()


def _call_what_else_draws() -> None:
    """Has graphs call operators that draw and that Inductor has decompositions of alone.

    Those would draw other numbers than eager mode. Without being asked, Inductor calls no operator
    where `implicit_fallbacks` is off.
    """
    normal_functional = torch.ops.aten.normal_functional.default
    for target in (*extra_random_decomps, normal_functional):
        if not target._schema.is_mutable and target not in lowerings:
            make_fallback(target, warn=False, override_decomp=True)


def keep(node: torch.fx.Node) -> None:
    """Lets activation checkpointing keep what a node has drawn.

    PyTorch would have the generator draw it again, which works for devices that it knows, and does
    so by the tag. So attention, which is to be computed again, becomes an operator without it.
    """
    if "recompute" not in node.meta:
        return
    if not draws(node.target):
        node.target = _attention()
        return
    parts = [user for user in node.users if user.target is operator.getitem]
    for kept in (node, *parts):
        kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _attention() -> Any:
    return torch.ops.outboard_compiled.attention.default


_LIBRARY = torch.library.Library("outboard_on_device", "FRAGMENT")
_twins: dict[torch._ops.OpOverload, torch._ops.OpOverload] = {}


def runs_on_device(target: torch._ops.OpOverload) -> bool:
    """Whether an operator can have a twin: it writes to no argument, and its results are new."""
    schema = target._schema
    return (
        target.has_kernel_for_dispatch_key(torch._C.DispatchKey.PrivateUse1)
        or target.namespace == "aten"
    ) and not any(part.alias_info for part in (*schema.arguments, *schema.returns))


def on_device(target: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The twin of an operator; defined when it is first asked for."""
    if target not in _twins:
        _twins[target] = _define_twin(target)
    return _twins[target]


def _define_twin(target: torch._ops.OpOverload) -> torch._ops.OpOverload:
    overload = target._schema.overload_name
    name = _C.define_call_on_device(target._schema.name, overload)

    def fake(*given: Any, **named: Any) -> Any:
        return target(*given, **named)

    torch.library.register_fake(f"outboard_on_device::{name}", fake, lib=_LIBRARY)
    twin: torch._ops.OpOverload = getattr(torch.ops.outboard_on_device, name).default
    if twin not in lowerings and twin not in fallbacks:
        make_fallback(twin, warn=False)
    return twin
