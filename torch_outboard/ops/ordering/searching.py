"""Searching in sorted values."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import FLOATS, INTEGERS, Definition
from torch_outboard.ops.symbolic import (
    SymBool,
    SymInt,
    SymString,
    SymTensor,
    fits,
    given,
    maximum,
    where,
)
from torch_outboard.ops.template import Plan, template

REAL = (*FLOATS, *INTEGERS)


def _searchsorted_number(
    sorted_sequence: Tensor,
    self: float,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Tensor | None,
) -> Tensor:
    dtype = torch.result_type(sorted_sequence, self)
    x = torch.scalar_tensor(self, dtype=dtype, device=sorted_sequence.device)
    return torch.searchsorted(
        sorted_sequence.to(dtype), x, out_int32=out_int32, right=right, side=side, sorter=sorter
    )


def _bucketize_number(self: float, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    dtype = torch.result_type(boundaries, self)
    x = torch.scalar_tensor(self, dtype=dtype, device=boundaries.device)
    return torch.bucketize(x, boundaries.to(dtype), out_int32=out_int32, right=right)


def _per_line(self: SymTensor, sorted_sequence: SymTensor) -> SymInt:
    """The number of values searched for in each sorted line."""
    in_one_line = sorted_sequence.dim() == 1
    return maximum(where(in_one_line, self.numel(), self.size(-1)), 1)


def _searchsorted(dtype: torch.dtype, *, has_sorter: bool) -> Definition:
    @template(
        "searchsorted.Tensor searchsorted.Tensor_out",
        "searchsorted",
        dtypes=REAL,
        shapes_only=("sorter",),
        accepts={"sorter": (torch.int64,)} if has_sorter else None,
        requires={"out_int32": dtype == torch.int32},
        reports=RuntimeError("sorter index out of range") if has_sorter else None,
    )
    def searchsorted(
        plan: Plan,
        sorted_sequence: SymTensor,
        self: SymTensor,
        right: SymBool,
        side: SymString,
        sorter: SymTensor,
    ) -> None:
        if has_sorter:
            plan.operand("sorter", sorter)
        in_one_line = sorted_sequence.dim() == 1
        is_right = side == "right"
        plan.require(
            given(sorter) if has_sorter else ~given(sorter),
            sorted_sequence.dim() > 0,
            in_one_line | (sorted_sequence.shape[:-1] == self.shape[:-1]),
            in_one_line | (sorted_sequence.dim() == self.dim()),
            ~given(side) | is_right | ((side == "left") & ~right),
            fits(sorter, sorted_sequence.shape),
        )
        out = plan.result("out", self.shape, dtype)
        plan.parameters(n=sorted_sequence.size(-1), per_line=_per_line(self, sorted_sequence))
        plan.constants(RIGHT=right | (given(side) & is_right))
        if has_sorter:
            plan.launch("check_sorter", sorter.numel())
        plan.launch("searchsorted", out.numel())

    return searchsorted


def _bucketize(dtype: torch.dtype) -> Definition:
    @template(
        "bucketize.Tensor bucketize.Tensor_out",
        "searchsorted",
        dtypes=REAL,
        requires={"out_int32": dtype == torch.int32},
    )
    def bucketize(plan: Plan, boundaries: SymTensor, self: SymTensor, right: SymBool) -> None:
        plan.require(boundaries.dim() == 1)
        out = plan.result("out", self.shape, dtype)
        plan.parameters(n=boundaries.numel(), per_line=maximum(self.numel(), 1))
        plan.constants(RIGHT=right)
        plan.launch("searchsorted", out.numel())

    return bucketize


def searches() -> list[Definition]:
    """Indices in sorted lines; a definition per dtype of the result."""
    return [
        *(
            row
            for dtype in (torch.int64, torch.int32)
            for row in (
                _searchsorted(dtype, has_sorter=False),
                _searchsorted(dtype, has_sorter=True),
                _bucketize(dtype),
            )
        ),
        decomposition(
            "searchsorted.Scalar searchsorted.Scalar_out",
            _searchsorted_number,
            dtypes=REAL,
            condition=lambda sorted_sequence: sorted_sequence.dim() == 1,
        ),
        decomposition(
            "bucketize.Scalar bucketize.Scalar_out",
            _bucketize_number,
            dtypes=REAL,
            condition=lambda boundaries: boundaries.dim() == 1,
        ),
    ]


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return searches()
