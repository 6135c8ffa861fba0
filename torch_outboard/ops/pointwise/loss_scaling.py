"""Operators of torch.amp.GradScaler: unscaling gradients, and updating the loss scale."""

from __future__ import annotations

import torch

from torch_outboard.ops.definition import FLOATS, Definition, dtype_bits, qualified
from torch_outboard.ops.requirements import of_dtype, served_calls
from torch_outboard.ops.symbolic import SymFloat, SymInt, SymTensor
from torch_outboard.ops.template import Plan, template


def _unscale() -> Definition:
    """Multiplies gradients by the inverse scale and reports whether one is not finite."""
    names = qualified("_amp_foreach_non_finite_check_and_unscale_")
    return {
        "kind": "pointwise_lists",
        "overloads": names,
        "lists": ["self"],
        "common": ["inv_scale"],
        "outputs": ["self"],
        "expressions": ["self * inv_scale"],
        "flag": "found_inf",
        "flag_if": "!isfinite(self)",
        "scalars": [],
        "dtypes": dtype_bits(dtype for dtype in FLOATS if dtype != torch.float64),
        "family": "pointwise",
        **served_calls(names[0], {"inv_scale": of_dtype(torch.float32)}),
    }


def _update_scale() -> Definition:
    @template(
        "_amp_update_scale_",
        "loss_scale",
        dtypes=(torch.float32,),
        accepts={"growth_tracker": (torch.int32,)},
        family="pointwise",
    )
    def update_scale(
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

    return update_scale


def definitions() -> list[Definition]:
    """Every definition."""
    return [_unscale(), _update_scale()]
