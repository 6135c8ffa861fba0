"""What torch.amp.GradScaler calls: gradients without the scale of their loss, and its next one."""

from __future__ import annotations

import torch

from torch_outboard.ops.row import FLOATS, Row, dtype_bits, qualified
from torch_outboard.ops.template import Launch, Result, templated


def rows() -> list[Row]:
    """Every row."""
    return [
        {
            "engine": "pointwise_lists",
            "overloads": qualified("_amp_foreach_non_finite_check_and_unscale_"),
            "lists": ["self"],
            "common": ["inv_scale"],
            "outputs": ["self"],
            "expressions": ["self * inv_scale"],
            "flag": "found_inf",
            "flag_if": "!isfinite(self)",
            "scalars": [],
            "derived": {},
            "requires": {"inv_scale": "dtype float32"},
            "dtypes": dtype_bits(dtype for dtype in FLOATS if dtype != torch.float64),
            "family": "pointwise",
        },
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
