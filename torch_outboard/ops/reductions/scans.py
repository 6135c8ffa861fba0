"""Running sums, products, maxima, minima and logarithms of sums of exponentials."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import COMPLEX, FLOATS, INDICES, ORDERED, WIDE, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymInt,
    SymTensor,
    ceil_div,
    given,
    has_dtype,
    has_other_dtype,
    maximum,
    where,
)
from torch_outboard.ops.template import Lines, Plan, lines_of, template

# Values of SCAN in scans.cl.
_SUM, _PRODUCT, _LOGARITHM, _MAXIMUM, _MINIMUM = range(5)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *(
            _scan(f"{name} {name}_ {name}.out", number, dtypes)
            for name, number in (("cumsum", _SUM), ("cumprod", _PRODUCT))
            for dtypes in (ORDERED, COMPLEX)
        ),
        *(
            _of_other_dtype(name, dtype)
            for name in ("cumsum", "cumprod")
            for dtype in (*WIDE, *INDICES)
        ),
        _logarithms(FLOATS),
        # Another order could give angles that differ by whole turns.
        _logarithms(
            COMPLEX,
            source="#define JOINED_LOGARITHMS(a, b) ob_logaddexp(a, b)\n",
            in_order=True,
        ),
        _extremes("_cummax_helper", _MAXIMUM),
        _extremes("_cummin_helper", _MINIMUM),
    ]


# ---- How a tensor is scanned


def _launch(plan: Plan, rows: Lines, number: int, *, in_order: bool = False) -> None:
    """Launches a work-item per short row if there are many, else a work-group per block of a row.

    `in_order`: a work-item scans each row, however long it is.
    """
    n = rows.n
    short = (rows.inner >= 64) | ((n <= 64) & (rows.total >= 64)) | in_order
    block = where(n > 4096, maximum(4096, ceil_div(n, 64)), maximum(n, 1))
    blocks = ceil_div(n, block)
    plan.parameters(n=n, inner=rows.inner, block=block, blocks=blocks, d=rows.dim)
    plan.constants(SCAN=number, IN_BLOCKS=~short)
    # States of up to 32 bytes.
    plan.temporary(
        "part_states", where(short, 1, 32 * maximum(rows.total * blocks, 1)), torch.uint8
    )
    plan.launch("scan_parts", groups=rows.total * blocks, when=~short & (blocks > 1))
    plan.launch("scan", groups=rows.total * blocks, when=~short)
    plan.launch("scan", rows.total, when=short)


# ---- The operators


def _scan(
    overloads: str,
    number: int,
    dtypes: Sequence[torch.dtype],
    *,
    in_order: bool = False,
    **fields: Any,
) -> Definition:
    """A scan with one result; `fields`: of `template`."""

    @template(overloads, "scans", dtypes=dtypes, compute="out", **fields)
    def scan(plan: Plan, self: SymTensor, dim: SymInt, **rest: Symbol) -> None:
        if "dtype" in rest:
            # Conversions between complex and real dtypes are not served.
            complexes = has_dtype(rest["dtype"], *COMPLEX)
            reals = has_other_dtype(rest["dtype"], torch.bool, *COMPLEX)
            plan.require(complexes if dtypes == COMPLEX else reals)
        rows = lines_of(self, dim)
        plan.result("out")
        _launch(plan, rows, number, in_order=in_order)

    return scan


def _logarithms(dtypes: Sequence[torch.dtype], **fields: Any) -> Definition:
    return _scan("_logcumsumexp _logcumsumexp.out", _LOGARITHM, dtypes, **fields)


def _extremes(name: str, number: int) -> Definition:
    """Running maxima or minima, into given `values` and `indices`."""

    @template(
        name,
        "scans",
        dtypes=ORDERED,
        accepts={"indices": (torch.int64,)},
        strided=("values", "indices"),
    )
    def extremes(
        plan: Plan, self: SymTensor, values: SymTensor, indices: SymTensor, dim: SymInt
    ) -> None:
        rows = lines_of(self, dim)
        plan.require((values.shape == self.shape) & (indices.shape == self.shape))
        _launch(plan, rows, number)

    return extremes


def _of_other_dtype(name: str, dtype: torch.dtype) -> Definition:
    """A scan with an `out` of another dtype, to which elements are converted first."""
    scan = getattr(torch, name)
    return decomposition(
        f"{name}.out",
        lambda self, dim: scan(self.to(dtype), dim, dtype=dtype),
        condition=lambda self, out, **rest: (
            ~given(rest["dtype"]) & has_dtype(out, dtype) & has_other_dtype(self, dtype)
        ),
    )
