"""Sorting, mode, and selection by rank."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import ORDERED, REALS, Definition
from torch_outboard.ops.symbolic import (
    Bool,
    SymBool,
    SymInt,
    SymInts,
    SymTensor,
    ceil_div,
    log2_ceil,
    maximum,
    minimum,
    where,
)
from torch_outboard.ops.template import Lines, Plan, lines_of, template

RUN = 16  # OB_RUN in sort.cl: elements per run on a CPU
EACH = 8  # OB_EACH in sort.cl: elements per work-item on a GPU, where a work-group sorts a run
LONGEST = 2**31 - 1  # elements per line: kernels store indices as int32


def _reduced_shape(self: SymTensor, lines: Lines, keepdim: SymBool) -> SymInts:
    """The shape of a result with one element per line."""
    return where(keepdim, self.shape.replace(lines.dim, 1), self.shape.drop(lines.dim))


class _Runs(NamedTuple):
    """The runs of each line, which are sorted first and then merged in pairs."""

    total: SymInt
    passes: SymInt
    items: SymInt  # work-items of each pass


def _runs_of(plan: Plan, lines: Lines) -> _Runs:
    cpu, lanes = plan.on_processor, plan.group_lanes
    runs = ceil_div(lines.n, where(cpu, RUN, EACH * lanes))
    # A work-group sorts one run, or several lines that are not longer than a run together.
    short_lines = maximum(lanes // maximum(ceil_div(lines.n, EACH), 1), 1)
    groups = ceil_div(lines.total * runs, where(runs > 1, 1, short_lines))
    items = where(cpu, lines.total * runs, groups * lanes)
    return _Runs(runs, log2_ceil(runs), items)


def _merge_sort(
    plan: Plan, self: SymTensor, lines: Lines, runs: _Runs, descending: Bool, direct: Bool
) -> None:
    """Leaves the sorted elements in temporaries, or in the results if `direct`."""
    sorted_numel = where(direct, 1, self.numel())
    merged_numel = where(runs.passes > 0, self.numel(), 1)
    plan.temporary("one", sorted_numel)
    plan.temporary("two", merged_numel)
    plan.temporary("one_locations", sorted_numel, torch.int32)
    plan.temporary("two_locations", merged_numel, torch.int32)
    plan.parameters(
        dim=lines.dim,
        n=lines.n,
        lines=lines.total,
        runs=runs.total,
        passes=runs.passes,
        self_stride=self.stride(lines.dim),
    )
    plan.constants(DESCENDING=descending, DIRECT=direct)
    plan.launch("sort_runs", runs.items)
    plan.launch("merge_runs", runs.items, repeat=runs.passes)


@template(
    "sort.stable sort.values_stable",
    "sort",
    dtypes=ORDERED,
    strided=("self", "values", "indices"),
)
def sort(plan: Plan, self: SymTensor, dim: SymInt, descending: SymBool) -> None:
    """Stable sort along a dimension."""
    lines = lines_of(self, dim)
    plan.require(lines.n <= LONGEST)
    values, indices = plan.result("values"), plan.result("indices")
    plan.parameters(
        values_stride=values.stride(lines.dim), indices_stride=indices.stride(lines.dim)
    )
    runs = _runs_of(plan, lines)
    direct = ~plan.on_processor & (runs.total == 1)
    _merge_sort(plan, self, lines, runs, descending, direct)
    plan.launch("write_sorted", self.numel(), when=~direct)


@template("mode mode.values", "sort", dtypes=ORDERED, strided=("self",))
def mode(plan: Plan, self: SymTensor, dim: SymInt, keepdim: SymBool) -> None:
    """The most frequent value along a dimension."""
    lines = lines_of(self, dim)
    plan.require(self.dim() > 0, (lines.n > 0) & (lines.n <= LONGEST))
    shape = _reduced_shape(self, lines, keepdim)
    plan.result("values", shape)
    plan.result("indices", shape, torch.int64)
    plan.constants(MODE=True)
    _merge_sort(plan, self, lines, _runs_of(plan, lines), descending=False, direct=False)
    plan.launch("mode", lines.total)


def _topk_limit(plan: Plan, n: SymInt, k: SymInt) -> SymInt:
    """The largest k: longer lists are slower than sorting, and exceed the registers of a GPU."""
    return where(plan.on_processor & (n >= 4 * k), 512, 64)


def _topk_blocks(plan: Plan, lines: Lines, k: SymInt) -> SymInt:
    """Blocks per line: each much longer than k, and no more than the device needs to be busy."""
    items = where(plan.on_processor, 64, 4096)
    longest = lines.n // maximum(1024, 16 * k)
    return maximum(1, minimum(longest, items // maximum(lines.total, 1)))


@template(
    "topk topk.values",
    "sort",
    dtypes=REALS,
    strided=("self", "values", "indices"),
    family="selection",
)
def topk(plan: Plan, self: SymTensor, k: SymInt, dim: SymInt, largest: SymBool) -> None:
    """The k largest or smallest elements along a dimension."""
    lines = lines_of(self, dim)
    plan.require(self.dim() > 0, (k > 0) & (k <= _topk_limit(plan, lines.n, k)), lines.n <= LONGEST)
    blocks = _topk_blocks(plan, lines, k)
    values, indices = plan.result("values"), plan.result("indices")
    plan.temporary("keys", lines.total * blocks * k)
    plan.temporary("locations", lines.total * blocks * k, torch.int32)
    plan.parameters(
        dim=lines.dim,
        n=lines.n,
        k=k,
        lines=lines.total,
        blocks=blocks,
        block=ceil_div(lines.n, blocks),
        self_stride=self.stride(lines.dim),
        values_stride=values.stride(lines.dim),
        indices_stride=indices.stride(lines.dim),
    )
    plan.constants(DESCENDING=largest, OB_MOST=where(k <= 64, 64, 512))
    groups = ceil_div(lines.total * blocks, plan.group_lanes)
    plan.launch("select_in_blocks", groups=groups)
    plan.launch("merge_blocks", lines.total)


# Values of MODE in select_rank.cl.
_KTH, _MEDIAN, _NANMEDIAN = 0, 1, 2


def _select_rank(
    plan: Plan, self: SymTensor, dim: SymInt, keepdim: SymBool, mode: int, k: SymInt | None = None
) -> None:
    lines = lines_of(self, dim)
    plan.require(
        self.dim() > 0,
        (-self.dim() <= dim) & (dim < self.dim()),
        (lines.n > 0) & (lines.n <= LONGEST),
    )
    if k is not None:
        plan.require((k > 0) & (k <= lines.n))
    shape = _reduced_shape(self, lines, keepdim)
    plan.result("values", shape)
    plan.result("indices", shape, torch.int64)
    plan.parameters(
        dim=lines.dim, n=lines.n, rank=0 if k is None else k - 1, self_stride=self.stride(lines.dim)
    )
    plan.constants(MODE=mode)
    plan.launch("select_rank", groups=lines.total)


_of_ranks = partial(
    template,
    kernels="indices_in_order select_rank",
    dtypes=REALS,
    strided=("self",),
    family="selection",
)


@_of_ranks("kthvalue kthvalue.values")
def kthvalue(plan: Plan, self: SymTensor, k: SymInt, dim: SymInt, keepdim: SymBool) -> None:
    """The k-th smallest element along a dimension."""
    _select_rank(plan, self, dim, keepdim, _KTH, k)


def _median(name: str, mode: int) -> Definition:
    @_of_ranks(f"{name}.dim {name}.dim_values")
    def median(plan: Plan, self: SymTensor, dim: SymInt, keepdim: SymBool) -> None:
        _select_rank(plan, self, dim, keepdim, mode)

    return median


def _topk(self: Tensor, k: int, dim: int, largest: bool, values: Tensor, indices: Tensor) -> None:
    if self.dim() == 0:
        values.copy_(self)
        indices.zero_()
    else:
        ordered, order = torch.sort(self, stable=True, dim=dim, descending=largest)
        values.copy_(ordered.narrow(dim, 0, k))
        indices.copy_(order.narrow(dim, 0, k))


def _of_number(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    require(self.dim() == 0 and -1 <= dim < 1)
    return self.clone(), torch.zeros_like(self, dtype=torch.int64)


def _kth_of_number(self: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    require(k == 1)
    return _of_number(self, dim)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    select = partial(decomposition, dtypes=REALS, family="selection")
    return [
        sort,
        mode,
        topk,
        kthvalue,
        _median("median", _MEDIAN),
        _median("nanmedian", _NANMEDIAN),
        # Of long lists, of tensors without dimensions, of whole tensors.
        select(
            "topk topk.values",
            _topk,
            results="values indices",
            condition=lambda self, k: (self.dim() > 0) | (k == 1),
        ),
        decomposition("mode", _of_number, dtypes=ORDERED),
        select("kthvalue kthvalue.values", _kth_of_number),
        *(select(f"{name}.dim {name}.dim_values", _of_number) for name in ("median", "nanmedian")),
        *(
            select(f"{name} {name}.out", body, condition=lambda self: self.numel() > 0)
            for name, body in (
                ("median", lambda self: torch.median(self.reshape(-1), 0, False)[0]),
                ("nanmedian", lambda self: torch.nanmedian(self.reshape(-1), 0, False)[0]),
            )
        ),
    ]
