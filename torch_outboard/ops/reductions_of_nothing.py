"""Reductions of tensors without elements, which need no kernel of a reduction."""

from __future__ import annotations

from torch_outboard.ops.composed import EVERY, composed
from torch_outboard.ops.row import Row

IDENTITIES = {
    "sum.dim_IntList": ("sum.dim_IntList sum.IntList_out", "0"),
    "prod.dim_int": ("prod.dim_int prod.int_out", "1"),
    "mean.dim": ("mean.dim mean.out", 'float("nan")'),
    "any.dim": ("any.dim any.out", "0"),
    "any.dims": ("any.dims any.dims_out", "0"),
    "all.dim": ("all.dim all.out", "1"),
    "all.dims": ("all.dims all.dims_out", "1"),
    "any": ("any any.all_out", "0"),
    "all": ("all all.all_out", "1"),
    "amax": ("amax amax.out", "0"),
    "amin": ("amin amin.out", "0"),
}


def rows() -> list[Row]:
    """Every row."""
    made = [
        composed(
            overloads,
            f"out.fill_({value})",
            results="out",
            meta=f"aten::{meta}",
            conditions=["numel(self) == 0"],
            dtypes=EVERY,
            family="reduction",
        )
        for meta, (overloads, value) in IDENTITIES.items()
    ]
    made += [
        composed(
            name,
            f"return self.reshape([0]).{name}([0], False, dtype=dtype)",
            conditions=["numel(self) == 0"],
            dtypes=EVERY,
            family="reduction",
        )
        for name in ("sum", "mean")
    ]
    return made
