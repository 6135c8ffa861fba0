"""Running sums, products, maxima, minima and logarithms of sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import COMPLEX, EVERY, FLOATS, INDICES, ORDERED, WIDE, Definition
from torch_outboard.ops.requirements import Predicate, not_of_dtype, of_dtype
from torch_outboard.ops.symbolic import SymInt, SymTensor, ceil_div, maximum, where
from torch_outboard.ops.template import Lines, Plan, lines_of, template

# Values of SCAN in scans.cl.
_SUM, _PRODUCT, _LOGARITHM, _MAXIMUM, _MINIMUM = range(5)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *(row for in_blocks in (False, True) for row in _scans(in_blocks)),
        *_other_dtypes(),
        _complex_logcumsumexp,
    ]


def _scans(in_blocks: bool) -> list[Definition]:
    # Conversions between complex and real dtypes are not served.
    kinds = ((ORDERED, not_of_dtype(torch.bool, *COMPLEX)), (COMPLEX, of_dtype(*COMPLEX)))
    return [
        *(
            _total(name, number, dtypes, requirement, in_blocks)
            for name, number in (("cumsum", _SUM), ("cumprod", _PRODUCT))
            for dtypes, requirement in kinds
        ),
        _logcumsumexp(in_blocks),
        _extremes("_cummax_helper", _MAXIMUM, in_blocks),
        _extremes("_cummin_helper", _MINIMUM, in_blocks),
    ]


# ---- How a tensor is scanned


def _require_form(plan: Plan, rows: Lines, in_blocks: bool) -> None:
    """Requires blocks, or else many short rows, which are scanned by a work-item each."""
    short = (rows.inner >= 64) | ((rows.n <= 64) & (rows.total >= 64))
    plan.require(~short if in_blocks else short)


def _launch(plan: Plan, rows: Lines, number: int, in_blocks: bool) -> None:
    n = rows.n
    block = where(n > 4096, maximum(4096, ceil_div(n, 64)), maximum(n, 1))
    blocks = ceil_div(n, block)
    plan.parameters(n=n, inner=rows.inner, block=block, blocks=blocks, d=rows.dim)
    plan.constants(SCAN=number)
    if not in_blocks:
        plan.launch("scan_columns", rows.total)
        return
    parts = maximum(rows.total * blocks, 1)
    plan.temporary("part_values", parts, "value")
    plan.temporary("part_rests", parts, "value")
    plan.temporary("part_locations", parts, torch.int64)
    plan.launch("scan_parts", groups=rows.total * blocks, when=blocks > 1)
    plan.launch("scan_blocks", groups=rows.total * blocks)


# ---- The operators


def _total(
    name: str, number: int, dtypes: Sequence[torch.dtype], requirement: Predicate, in_blocks: bool
) -> Definition:
    @template(
        f"{name} {name}_ {name}.out",
        "scans",
        dtypes=dtypes,
        compute="out",
        requires={"dtype": requirement},
    )
    def total(plan: Plan, self: SymTensor, dim: SymInt) -> None:
        rows = lines_of(self, dim)
        _require_form(plan, rows, in_blocks)
        plan.result("out")
        _launch(plan, rows, number, in_blocks)

    return total


def _logcumsumexp(in_blocks: bool) -> Definition:
    @template("_logcumsumexp _logcumsumexp.out", "scans", dtypes=FLOATS, compute="out")
    def logcumsumexp(plan: Plan, self: SymTensor, dim: SymInt) -> None:
        rows = lines_of(self, dim)
        _require_form(plan, rows, in_blocks)
        plan.result("out")
        _launch(plan, rows, _LOGARITHM, in_blocks)

    return logcumsumexp


@template("_logcumsumexp _logcumsumexp.out", "complex_logcumsumexp", dtypes=COMPLEX)
def _complex_logcumsumexp(plan: Plan, self: SymTensor, dim: SymInt) -> None:
    rows = lines_of(self, dim)
    plan.result("out")
    plan.parameters(n=rows.n, inner=rows.inner)
    plan.launch("scan_columns", rows.total)


def _extremes(name: str, number: int, in_blocks: bool) -> Definition:
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
        _require_form(plan, rows, in_blocks)
        _launch(plan, rows, number, in_blocks)

    return extremes


def _other_dtypes() -> list[Definition]:
    """Sums and products with an `out` of another dtype, to which elements are converted first."""
    return [
        decomposition(
            f"{name}.out",
            _of_converted(getattr(torch, name), dtype),
            dtypes=EVERY,
            requires={"dtype": None, "out": of_dtype(dtype), "self": not_of_dtype(dtype)},
        )
        for name in ("cumsum", "cumprod")
        for dtype in (*WIDE, *INDICES)
    ]


def _of_converted(scan: Callable[..., Tensor], dtype: torch.dtype) -> Callable[..., Tensor]:
    def body(self: Tensor, dim: int) -> Tensor:
        return scan(self.to(dtype), dim, dtype=dtype)

    return body
