"""Searching in sorted values, distinct values, and membership."""

from functools import partial

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import ORDERED, REALS, Definition, dtype_number
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


def _searchsorted_number(
    sorted_sequence: Tensor,
    self: float,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Tensor | None,
) -> Tensor:
    require(sorted_sequence.dim() == 1)
    dtype = torch.result_type(sorted_sequence, self)
    x = torch.scalar_tensor(self, dtype=dtype, device=sorted_sequence.device)
    return torch.searchsorted(
        sorted_sequence.to(dtype), x, out_int32=out_int32, right=right, side=side, sorter=sorter
    )


def _bucketize_number(self: float, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    return _searchsorted_number(boundaries, self, out_int32, right, None, None)


def _per_line(self: SymTensor, sorted_sequence: SymTensor) -> SymInt:
    """The number of values searched for in each sorted line."""
    in_one_line = sorted_sequence.dim() == 1
    return maximum(where(in_one_line, self.numel(), self.size(-1)), 1)


def _location_dtype(out_int32: SymBool) -> SymInt:
    return where(out_int32, dtype_number(torch.int32), dtype_number(torch.int64))


@template(
    "searchsorted.Tensor searchsorted.Tensor_out",
    "searchsorted",
    dtypes=REALS,
    accepts={"sorter": (torch.int64,)},
    reports=RuntimeError("sorter index out of range"),
)
def _searchsorted(
    plan: Plan,
    sorted_sequence: SymTensor,
    self: SymTensor,
    out_int32: SymBool,
    right: SymBool,
    side: SymString,
    sorter: SymTensor,
) -> None:
    in_one_line = sorted_sequence.dim() == 1
    is_right = side == "right"
    plan.require(
        sorted_sequence.dim() > 0,
        in_one_line | (sorted_sequence.shape[:-1] == self.shape[:-1]),
        in_one_line | (sorted_sequence.dim() == self.dim()),
        ~given(side) | is_right | ((side == "left") & ~right),
        fits(sorter, sorted_sequence.shape),
    )
    out = plan.result("out", self.shape, _location_dtype(out_int32))
    plan.parameters(n=sorted_sequence.size(-1), per_line=_per_line(self, sorted_sequence))
    plan.constants(RIGHT=right | (given(side) & is_right))
    plan.launch("check_sorter", sorted_sequence.numel(), when=given(sorter))
    plan.launch("searchsorted", out.numel())


@template("bucketize.Tensor bucketize.Tensor_out", "searchsorted", dtypes=REALS)
def _bucketize(
    plan: Plan, boundaries: SymTensor, self: SymTensor, out_int32: SymBool, right: SymBool
) -> None:
    plan.require(boundaries.dim() == 1)
    out = plan.result("out", self.shape, _location_dtype(out_int32))
    plan.parameters(n=boundaries.numel(), per_line=maximum(self.numel(), 1))
    plan.constants(RIGHT=right)
    plan.launch("searchsorted", out.numel())


# ---- Distinct values and membership

Found = tuple[Tensor, Tensor, Tensor]  # values, inverse, counts


def _lengths(starts: Tensor, n: int) -> Tensor:
    end = torch.full([1], n, dtype=torch.int64, device=starts.device)
    return torch.cat([starts[1:], end]) - starts if starts.numel() > 0 else starts


def _groups(x: Tensor) -> tuple[Tensor, Tensor]:
    """Groups of equal adjacent rows: each row's group number, and each group's first index."""
    first = torch.ones([x.size(0)], dtype=torch.bool, device=x.device)
    if x.size(0) > 1:
        differs = x[1:] != x[:-1]
        if x.dim() > 1:
            differs = differs.reshape(x.size(0) - 1, -1).any(1)
        first[1:] = differs
    return first.cumsum(0) - 1, first.nonzero().reshape(-1)


def _nothing(x: Tensor) -> Tensor:
    return torch.empty([0], dtype=torch.int64, device=x.device)


def _consecutive(rows: Tensor, inverse: bool, counts: bool) -> Found:
    group, starts = _groups(rows)
    number = _lengths(starts, rows.size(0)) if counts else _nothing(rows)
    return rows.index_select(0, starts), group if inverse else _nothing(rows), number


def _unique2(self: Tensor, return_inverse: bool, return_counts: bool) -> Found:
    ordered, indices = torch.sort(self.reshape(-1), stable=True, dim=0)
    values, group, counts = _consecutive(ordered, True, return_counts)
    inverse = _nothing(self)
    if return_inverse:
        inverse = torch.empty_like(group).scatter_(0, indices, group).reshape(self.shape)
    return values, inverse, counts


def _unique(self: Tensor, return_inverse: bool) -> tuple[Tensor, Tensor]:
    return _unique2(self, return_inverse, False)[:2]


def _unique_consecutive(
    self: Tensor, return_inverse: bool, return_counts: bool, dim: int | None
) -> Found:
    if dim is not None:
        of_dim: Found = torch.ops.aten.unique_dim_consecutive(
            self, dim, return_inverse, return_counts
        )
        return of_dim
    values, inverse, counts = _consecutive(self.reshape(-1), return_inverse, return_counts)
    return values, inverse.reshape(self.shape) if return_inverse else inverse, counts


def _of_no_slices(self: Tensor, dim: int) -> Found:
    require(0 not in self.movedim(dim, 0).shape[1:])
    return self.clone(), _nothing(self), _nothing(self)


def _unique_dim_consecutive(
    self: Tensor, dim: int, return_inverse: bool, return_counts: bool
) -> Found:
    if self.size(dim) == 0:
        return _of_no_slices(self, dim)
    require(self.numel() > 0)
    rows = self.movedim(dim, 0).contiguous()
    values, inverse, counts = _consecutive(rows, return_inverse, return_counts)
    return values.movedim(0, dim), inverse, counts


def _unique_dim(self: Tensor, dim: int, return_inverse: bool, return_counts: bool) -> Found:
    if self.size(dim) == 0:
        return _of_no_slices(self, dim)
    # One sort for each column.
    require(0 < self.numel() <= 4096 * self.size(dim))
    rows = self.movedim(dim, 0)
    flat = rows.reshape(rows.size(0), -1)
    # Lexicographic order by stable sorts, from the last column to the first.
    order = torch.arange(flat.size(0), device=self.device)
    for k in reversed(range(flat.size(1))):
        column = flat.select(1, k).index_select(0, order)
        order = order.index_select(0, torch.sort(column, stable=True, dim=0)[1])
    values, group, counts = _consecutive(flat.index_select(0, order), True, return_counts)
    inverse = _nothing(self)
    if return_inverse:
        inverse = torch.empty_like(group).scatter_(0, order, group)
    return values.reshape(values.size(0), *rows.shape[1:]).movedim(0, dim), inverse, counts


def _isin(elements: Tensor, test_elements: Tensor, invert: bool) -> Tensor:
    require(test_elements.dtype != torch.bool)
    if test_elements.numel() == 0:
        return torch.full(elements.shape, invert, dtype=torch.bool, device=elements.device)
    dtype = torch.result_type(elements, test_elements)
    ordered = torch.sort(test_elements.reshape(-1).to(dtype), stable=True, dim=0)[0]
    x = elements.to(dtype).contiguous()
    indices = torch.searchsorted(ordered, x).clamp(max=ordered.numel() - 1)
    found = ordered.index_select(0, indices.reshape(-1)).reshape(x.shape) == x
    return found.logical_not() if invert else found


def _is_number(elements: Tensor, test_element: float, invert: bool) -> Tensor:
    elements = elements.contiguous()
    return elements != test_element if invert else elements == test_element


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    of_sorted = partial(decomposition, dtypes=ORDERED)
    of_reals = partial(decomposition, dtypes=REALS)
    return [
        _searchsorted,
        _bucketize,
        of_reals("searchsorted.Scalar searchsorted.Scalar_out", _searchsorted_number),
        of_reals("bucketize.Scalar bucketize.Scalar_out", _bucketize_number),
        of_sorted("_unique2", _unique2),
        of_sorted("_unique", _unique),
        of_sorted("unique_dim_consecutive", _unique_dim_consecutive),
        of_sorted("unique_dim", _unique_dim),
        of_sorted("unique_consecutive", _unique_consecutive),
        of_reals("isin.Tensor_Tensor isin.Tensor_Tensor_out", _isin),
        of_reals("isin.Tensor_Scalar isin.Tensor_Scalar_out", _is_number),
    ]
