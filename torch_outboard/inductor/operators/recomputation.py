"""What activation checkpointing computes again in a backward pass, of operators that may draw.

PyTorch goes by a tag of the operator, and would have the generator of some devices draw again. So
what draws is kept, and attention, whose operator has the tag although it never draws, becomes an
operator without it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._inductor.lowering import lowerings, make_fallback, sdpa_constraint
from torch.utils.checkpoint import CheckpointPolicy

_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def define(library: torch.library.Library) -> None:
    """Defines attention without the tag, which compiled graphs call as eager mode does."""
    library.define("attention(" + str(_ATTENTION._schema).split("(", 1)[1])
    library.impl("attention", _ATTENTION, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{library.ns}::attention", _ATTENTION, lib=library)
    ours = _ours()
    make_fallback(ours, sdpa_constraint, warn=False)
    lowerings[ours] = lowerings[_ATTENTION]


def keep(node: torch.fx.Node) -> None:
    """Lets checkpointing keep what a node gives, unless it is attention, which does not draw."""
    if "recompute" not in node.meta:
        return
    if node.target is _ATTENTION and not _may_draw(node):
        node.target = _ours()
        return
    parts = [user for user in node.users if user.target is operator.getitem]
    for kept in (node, *parts):
        kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _may_draw(node: torch.fx.Node) -> bool:
    dropout = node.args[3] if len(node.args) > 3 else node.kwargs.get("dropout_p", 0.0)
    return dropout != 0


def _ours() -> Any:
    return torch.ops.outboard_compiled.attention.default
