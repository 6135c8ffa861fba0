"""Operators of torch.amp.GradScaler: unscaling gradients, and updating the loss scale."""

from __future__ import annotations

import torch

from torch_outboard.ops.definition import FLOATS, Definition, caller_location, dtype_bits
from torch_outboard.ops.requirements import definition_of, of_dtype
from torch_outboard.ops.symbolic import SymFloat, SymInt, SymTensor
from torch_outboard.ops.template import Plan, template

# Multiplies gradients by the inverse scale and reports whether one is not finite.
_unscale = definition_of(
    "pointwise_lists",
    "_amp_foreach_non_finite_check_and_unscale_",
    {
        "lists": ["self"],
        "common": ["inv_scale"],
        "names": ["self", "inv_scale"],
        "outputs": ["self"],
        "expressions": ["self * inv_scale"],
        "flag": "found_inf",
        "flag_if": "!isfinite(self)",
        "dtypes": dtype_bits(dtype for dtype in FLOATS if dtype != torch.float64),
    },
    location=caller_location(),
    requires={"inv_scale": of_dtype(torch.float32)},
)


@template(
    "_amp_update_scale_",
    "loss_scale",
    dtypes=(torch.float32,),
    accepts={"growth_tracker": (torch.int32,)},
)
def _update_scale(
    plan: Plan,
    self: SymTensor,
    growth_tracker: SymTensor,
    found_inf: SymTensor,
    scale_growth_factor: SymFloat,
    scale_backoff_factor: SymFloat,
    growth_interval: SymInt,
) -> None:
    plan.require(self.numel() == 1, growth_tracker.numel() == 1, found_inf.numel() == 1)
    plan.result("out", self.shape)
    plan.parameters(
        growth=scale_growth_factor, backoff=scale_backoff_factor, interval=growth_interval
    )
    plan.launch("update_loss_scale", 1)


def definitions() -> list[Definition]:
    """Every definition."""
    return [_unscale, _update_scale]
