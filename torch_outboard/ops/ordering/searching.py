"""Searching in sorted values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

REAL = (*FLOATS, *INTEGERS)
FAMILY: dict[str, Any] = {"family": "sorting"}


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


def searches() -> list[Row]:
    """Places in sorted lines; a row per dtype of the result."""
    rows = []
    for flag, dtype in (("False", "int64"), ("True", "int32")):
        common: dict[str, Any] = {
            "dtypes": REAL,
            "requires": {"out_int32": flag},
            **FAMILY,
        }
        search = Launch("searchsorted", "numel(out)")
        rows += [
            templated(
                "searchsorted.Tensor searchsorted.Tensor_out",
                "searchsorted",
                [Launch("check_sorter", "numel(sorter)"), search] if sorted_by else search,
                operands=f"sorted_sequence self{sorted_by}",
                accepts={"sorter": "int64"} if sorted_by else {},
                results=Result("out", "sizes(self)", dtype),
                reports="RuntimeError: sorter index out of range" if sorted_by else "",
                conditions=[
                    "given(sorter)" if sorted_by else "!given(sorter)",
                    "dims(sorted_sequence) > 0",
                    "dims(sorted_sequence) == 1 || "
                    "sizes(sorted_sequence)[0:-1] == sizes(self)[0:-1]",
                    "dims(sorted_sequence) == 1 || dims(sorted_sequence) == dims(self)",
                    'given(side) ? side == "right" || (side == "left" && !right) : 1',
                    "given(sorter) ? sizes(sorter) == sizes(sorted_sequence) : 1",
                ],
                numbers={
                    "n": "size(sorted_sequence, -1)",
                    "per_line": "dims(sorted_sequence) == 1 ? max(numel(self), 1) : "
                    "max(size(self, -1), 1)",
                },
                constants={"RIGHT": 'right || (given(side) ? side == "right" : 0)'},
                **common,
            )
            for sorted_by in ("", " sorter")
        ]
        rows += [
            templated(
                "bucketize.Tensor bucketize.Tensor_out",
                "searchsorted",
                Launch("searchsorted", "numel(out)"),
                operands="boundaries self",
                results=Result("out", "sizes(self)", dtype),
                conditions=["dims(boundaries) == 1"],
                numbers={"n": "numel(boundaries)", "per_line": "max(numel(self), 1)"},
                constants={"RIGHT": "right"},
                **common,
            ),
        ]
    return [
        *rows,
        composed(
            "searchsorted.Scalar searchsorted.Scalar_out",
            _searchsorted_number,
            dtypes=REAL,
            conditions=["dims(sorted_sequence) == 1"],
            **FAMILY,
        ),
        composed(
            "bucketize.Scalar bucketize.Scalar_out",
            _bucketize_number,
            dtypes=REAL,
            conditions=["dims(boundaries) == 1"],
            **FAMILY,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return searches()
