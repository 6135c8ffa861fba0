"""Running sums, products, maxima, minima and logarithms of sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import BOOL, COMPLEX, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

_REALS = (*FLOATS, *INTEGERS, *BOOL)


def rows() -> list[Row]:
    """Every row."""
    out = [Result("out")]
    # Complex numbers do not become real ones on the way, nor the other way round.
    kinds = (
        (_REALS, "dtype not bool complex64 complex128"),
        (COMPLEX, "dtype complex64 complex128"),
    )
    scans = [
        row
        for blocks in (False, True)
        for row in (
            *(
                _scan(
                    f"{name} {name}_ {name}.out",
                    number,
                    dtypes,
                    out,
                    blocks,
                    meta=f"aten::{name}",
                    requires={"dtype": requirement},
                )
                for number, name in enumerate(("cumsum", "cumprod"))
                for dtypes, requirement in kinds
            ),
            _scan("_logcumsumexp _logcumsumexp.out", 2, FLOATS, out, blocks),
            _scan("_cummax_helper", 3, _REALS, [], blocks),
            _scan("_cummin_helper", 4, _REALS, [], blocks),
        )
    ]
    return [*scans, *_other_dtypes(), _complex_logcumsumexp()]


def _of_converted(scan: Callable[..., Tensor], dtype: torch.dtype) -> Callable[..., Tensor]:
    def body(self: Tensor, dim: int) -> Tensor:
        return scan(self.to(dtype), dim, dtype=dtype)

    return body


def _other_dtypes() -> list[Row]:
    """Sums and products into another dtype, which the elements get first."""
    dtypes = {
        torch.float32: "floating(out) && bytes(out) == 4",
        torch.float64: "floating(out) && bytes(out) == 8",
        torch.int32: "!floating(out) && bytes(out) == 4",
        torch.int64: "!floating(out) && bytes(out) == 8",
    }
    differs = "floating(self) != floating(out) || bytes(self) != bytes(out)"
    return [
        composed(
            f"{name}.out",
            _of_converted(getattr(torch, name), dtype),
            dtypes=(*_REALS, *COMPLEX),
            conditions=["!given(dtype)", condition, differs],
            family="scan",
        )
        for name in ("cumsum", "cumprod")
        for dtype, condition in dtypes.items()
    ]


def _complex_logcumsumexp() -> Row:
    return templated(
        "_logcumsumexp _logcumsumexp.out",
        "complex_logcumsumexp",
        Launch("scan_columns", "n > 0 ? numel(self) // n : 0"),
        dtypes=COMPLEX,
        let={"d": "wrap(dim, dims(self))", "n": "size(self, d)"},
        numbers={"n": "n", "inner": "prod(sizes(self)[d + 1:])"},
        family="scan",
    )


def _scan(
    overloads: str,
    number: int,
    dtypes: Sequence[torch.dtype],
    results: list[Result],
    blocks: bool,
    **known: Any,
) -> Row:
    """Over many short columns, or over rows in blocks."""
    # Values are those of the result. The extremes go to arguments.
    if results:
        known["compute"] = "out"
        operands, accepts, conditions, strided = "self", {}, [], ""
    else:
        operands, accepts, strided = "self values indices", {"indices": "int64"}, "values indices"
        conditions = ["sizes(values) == sizes(self) && sizes(indices) == sizes(self)"]
    wide = "(inner >= 64 || n <= 64 && rows >= 64)"
    rows = "numel(self) // n"
    part = Result("part_values", "max(rows * blocks, 1)", "value")
    return templated(
        overloads,
        f"scan_functions {'scan_blocks' if blocks else 'scan_columns'}",
        [
            Launch("scan_parts", "rows * blocks", groups=True, when="blocks > 1"),
            Launch("scan_blocks", "rows * blocks", groups=True),
        ]
        if blocks
        else Launch("scan_columns", "rows"),
        dtypes=dtypes,
        operands=operands,
        accepts=accepts,
        results=results,
        temporaries=[
            part,
            Result("part_rests", part.sizes, "value"),
            Result("part_places", part.sizes, "int64"),
        ]
        if blocks
        else [],
        let={
            "d": "wrap(dim, dims(self))",
            "n": "size(self, d)",
            "inner": "prod(sizes(self)[d + 1:])",
            "rows": f"n > 0 ? {rows} : 0",
            "block": "n > 4096 ? max(4096, (n + 63) // 64) : max(n, 1)",
            "blocks": "(n + block - 1) // block",
        },
        conditions=[*conditions, f"!{wide}" if blocks else wide],
        numbers={"n": "n", "inner": "inner", "block": "block", "blocks": "blocks", "d": "d"},
        constants={"SCAN": str(number)},
        strided=strided,
        family="scan",
        **known,
    )
