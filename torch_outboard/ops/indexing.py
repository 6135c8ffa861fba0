"""Operators that read and write at places given by index tensors."""

from __future__ import annotations

from torch_outboard.ops.row import BOOL, COMPLEX, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, templated

ALL = (*FLOATS, *INTEGERS, *BOOL, *COMPLEX)


def rows() -> list[Row]:
    """Every row."""
    return [
        templated(
            "gather gather.out",
            "gather",
            Launch("gather", "numel(out)"),
            dtypes=ALL,
            operands="self index",
            accepts={"index": "int32 int64"},
            let={"d": "wrap(dim, dims(self))"},
            conditions=["dims(self) > 0"],
            numbers={"dim": "d", "n": "size(self, d)", "stride": "stride(self, d)"},
            meta="aten::gather",
            items_of="self out",
            strided="self index",
            family="indexing",
        ),
    ]
