"""Operators that compiled graphs call on the device; operators that draw random numbers.

PyTorch tags operators that may draw on some device. Attention has the tag and never draws on this
device: with dropout, eager mode uses another formula.

Code for the CPU calls a device operator (one that draws, or an extension's) through a *twin*. The
twin takes and returns CPU tensors, and calls the operator with tensors of the current device
(csrc/cpu_kernels/compiled_code.cpp).
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import torch
from torch._decomp.decompositions_for_rng import extra_random_decomps
from torch._inductor.lowering import fallbacks, lowerings, make_fallback, sdpa_constraint
from torch.utils.checkpoint import CheckpointPolicy

from torch_outboard import _C

_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def is_marked(target: Any) -> bool:
    """Whether PyTorch's tag marks the target of a node as an operator that draws."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def draws(target: Any) -> bool:
    """Whether the target of a node draws random numbers on this device."""
    return is_marked(target) and target is not _ATTENTION


def define(library: torch.library.Library) -> None:
    """Defines attention without the tag; its lowering calls PyTorch's operator."""
    library.define("attention(" + str(_ATTENTION._schema).split("(", 1)[1])
    library.impl("attention", _ATTENTION, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{library.ns}::attention", _ATTENTION, lib=library)
    ours = _attention()
    make_fallback(ours, sdpa_constraint, warn=False)
    lowerings[ours] = lowerings[_ATTENTION]
    _call_what_else_draws()


def _call_what_else_draws() -> None:
    """Registers fallbacks for operators that draw and that Inductor only has decompositions for.

    The decompositions would draw other numbers than eager mode. Inductor calls an operator without
    a registered fallback only if `implicit_fallbacks` is on.
    """
    normal_functional = torch.ops.aten.normal_functional.default
    for target in (*extra_random_decomps, normal_functional):
        if not target._schema.is_mutable and target not in lowerings:
            make_fallback(target, warn=False, override_decomp=True)


def keep(node: torch.fx.Node) -> None:
    """Makes activation checkpointing save the results of a node that draws.

    PyTorch recomputes tagged nodes with a saved generator state, for devices that it knows only.
    Attention draws nothing and may be recomputed, so it becomes the operator without the tag.
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


def runs_on_device(target: torch._ops.OpOverload) -> bool:
    """Whether an operator can have a twin: it writes to no argument, and results alias none."""
    schema = target._schema
    return (
        target.has_kernel_for_dispatch_key(torch._C.DispatchKey.PrivateUse1)
        or target.namespace == "aten"
    ) and not any(part.alias_info for part in (*schema.arguments, *schema.returns))


@cache
def on_device(target: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The twin of an operator; the first call defines it."""
    overload = target._schema.overload_name
    name = _C.define_call_on_device(target._schema.name, overload)

    def fake(*given: Any, **named: Any) -> Any:
        return target(*given, **named)

    torch.library.register_fake(f"outboard_on_device::{name}", fake, lib=_LIBRARY)
    twin: torch._ops.OpOverload = getattr(torch.ops.outboard_on_device, name).default
    if twin not in lowerings and twin not in fallbacks:
        make_fallback(twin, warn=False)
    return twin
