"""What torch.amp.GradScaler calls: gradients without the scale of their loss, and its next one."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed, require
from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated


def _unscale(self: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    require(inv_scale.dtype == torch.float32 and found_inf.dtype == torch.float32)
    largest = [
        torch.linalg.vector_norm(x, float("inf"), dtype=torch.float32)  # NaN if there is any
        for x in self
        if x.numel() > 0
    ]
    if largest:
        finite = (torch.stack(largest).amax() < float("inf")).to(torch.float32)
        found_inf.copy_(torch.maximum(found_inf, 1 - finite))
    scale = inv_scale.reshape([])
    for x in self:
        if x.dtype == torch.float32:
            x.mul_(scale)
        else:
            # Half types do not hold the scale.
            x.copy_(x.to(torch.float32) * scale)


def rows() -> list[Row]:
    """Every row."""
    single = ["numel(inv_scale) == 1 && bytes(inv_scale) == 4", "numel(found_inf) == 1"]
    return [
        composed(
            "_amp_foreach_non_finite_check_and_unscale_",
            _unscale,
            dtypes=[dtype for dtype in FLOATS if dtype != torch.float64],
            conditions=single,
            family="pointwise",
        ),
        templated(
            "_amp_update_scale_",
            "loss_scale",
            Launch("update_loss_scale", "1"),
            dtypes=(torch.float32,),
            operands="self growth_tracker found_inf",
            accepts={"growth_tracker": "int32"},
            results=Result("out", "sizes(self)"),
            reals={"growth": "scale_growth_factor", "backoff": "scale_backoff_factor"},
            numbers={"interval": "growth_interval"},
            conditions=["numel(self) == 1 && numel(growth_tracker) == 1 && numel(found_inf) == 1"],
            family="pointwise",
        ),
    ]
