"""Operators that read and write elements at the indices in tensors."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from torch_outboard.ops.definition import BOOL, COMPLEX, EVERY, INDICES, ORDERED, REALS, Definition
from torch_outboard.ops.symbolic import (
    Bool,
    Int,
    SymBool,
    SymInt,
    SymString,
    SymTensor,
    ceil_div,
    maximum,
    minimum,
    where,
    wrap,
)
from torch_outboard.ops.template import ANY, Plan, template

# PyTorch accepts an empty uint8 tensor as index.
INDEX_DTYPES = {"index": (*INDICES, torch.uint8)}
selecting = partial(template, kernels="index_select", dtypes=EVERY, moves=("self", "out"))


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        asserted,
        functionally_asserted,
        gather,
        index_select,
        *(
            scatter(f"scatter.{kind} scatter.{kind}_out scatter_.{kind}", EVERY, reduces=False)
            for kind in ("src", "value")
        ),
        *(
            scatter(overloads, dtypes)
            for overloads in (
                "scatter.reduce scatter.reduce_out scatter_.reduce",
                "scatter.value_reduce scatter.value_reduce_out scatter_.value_reduce",
                "scatter_add scatter_add.out scatter_add_",
                "scatter_reduce.two scatter_reduce.two_out scatter_reduce_.two",
            )
            for dtypes in (REALS, COMPLEX, BOOL)
        ),
        take,
        nonzero,
    ]


# ---- Reading

GATHER_ADJACENT = 64  # OB_ADJACENT in gather.cl: elements per work-item on a CPU


def launch_select(plan: Plan, out: SymTensor, after: SymInt) -> None:
    """Launches index_select.cl; `after` elements of a slice are adjacent in memory."""
    plan.launch("select_elements", out.numel(), when=after < 32)
    plan.launch("select_slices", groups=out.numel() // after, when=after >= 32)


@selecting("index_select index_select.out", accepts=INDEX_DTYPES, reports=IndexError)
def index_select(plan: Plan, self: SymTensor, dim: SymInt, index: SymTensor) -> None:
    """Slices at indices along a dimension."""
    d = wrap(dim, self.dim())
    n, count = self.size(d), index.numel()
    plan.require(
        index.dim() < 2, (self.dim() > 0) | (count == 1), (self.dim() == 0) | (n > 0) | (count == 0)
    )
    after = self.shape[d + 1 :].prod()
    out = plan.result("out", where(self.dim() > 0, self.shape.replace(d, count), self.shape))
    plan.parameters(n=n, count=count, after=after)
    launch_select(plan, out, after)


@template(
    "gather gather.out",
    "gather",
    dtypes=EVERY,
    accepts=INDEX_DTYPES,
    moves=("self", "out"),
    strided=("self", "index"),
    reports=RuntimeError,
)
def gather(plan: Plan, self: SymTensor, dim: SymInt, index: SymTensor) -> None:
    """Elements along a dimension."""
    d = wrap(dim, self.dim())
    out = plan.result()
    plan.parameters(dim=d, n=self.size(d), stride=self.stride(d))
    width = out.size(-1)
    runs = out.numel() // maximum(width, 1) * ceil_div(width, GATHER_ADJACENT)
    plan.launch("gather", where(plan.on_processor, runs, out.numel()))


@selecting("take take.out", accepts={"index": (torch.int64,)}, reports=IndexError)
def take(plan: Plan, self: SymTensor, index: SymTensor) -> None:
    """Elements of the flattened tensor."""
    plan.require((self.numel() > 0) | (index.numel() == 0))
    plan.result("out", index.shape)
    plan.parameters(n=self.numel(), count=index.numel(), after=1)
    plan.constants(WRAP=1)
    plan.launch("select_elements", index.numel())


@template("nonzero nonzero.out", "nonzero", dtypes=EVERY, strided=("out",))
def nonzero(plan: Plan, self: SymTensor) -> None:
    """Indices of nonzero elements."""
    plan.require(self.dim() <= 16)
    n = self.numel()
    least = where(plan.on_processor, 64, 4096)
    blocks = minimum(maximum(n // least, 1), 4096)
    starts = plan.temporary("starts", blocks + 1, torch.int64)
    plan.parameters(n=n, block=ceil_div(n, blocks), blocks=blocks, dims=self.dim(), size=self.shape)
    plan.launch("count_blocks", blocks * plan.group_lanes)
    plan.launch("add_counts", 1)
    total = plan.read(starts)
    plan.result("out", [total, self.dim()], torch.int64, strides=[1, total])
    plan.launch("write_indices", blocks * plan.group_lanes)


# ---- Writing

SCATTER_ADJACENT = 32  # OB_ADJACENT in scatter.cl: lines per work-item on a CPU
SLICE_WIDTH = 256  # OB_SLICE in scatter.cl and index_put.cl
# Values of GROUPED in scatter.cl.
NO_GROUPS, LINE_OF_GROUP, LINE_OF_GROUPS = range(3)
# Values of REDUCE in scatter.cl.
SUM, PROD, AMAX, AMIN, MEAN = range(5)


def shared_ranges(groups: Int, count: SymInt) -> SymInt:
    """The number of work-groups of a GPU that share `count` indices: a power of two.

    Args:
        groups: the number of work-groups without sharing.
        count: indices that each work-group scans, as in indices_in_order.cl.
    """
    few = where(groups >= 64, 16, where(groups >= 8, 128, 512))
    return where((count < 256) | (groups >= 512), 1, few)


class _Lines(NamedTuple):
    """The lines of an index tensor along a dimension, and their distribution to work-groups."""

    dim: SymInt
    total: SymInt
    name_slices: SymBool  # the index repeats along the last dimension
    items: SymInt  # work-items of kernels for single elements
    slice_groups: SymInt  # work-groups of kernels for slices


def _lines_of(plan: Plan, self: SymTensor, dim: SymInt, index: SymTensor) -> _Lines:
    """Makes the result, too, and passes the common parameters of the kernels."""
    d = wrap(dim, self.dim())
    length, last, cpu = index.size(d), index.dim() - 1, plan.on_processor
    count = index.numel() // maximum(length, 1)
    width = maximum(index.size(-1), 1)
    repeats = (index.stride(-1) == 0) & (index.size(-1) > 1)
    name_slices = (index.dim() > 1) & (d < last) & repeats
    # On a GPU a work-group takes a line if its elements are adjacent or if there are few lines.
    worthwhile = (d == last) | (count < 1024 * plan.processors)
    grouped = ~cpu & ~name_slices & (length >= 64) & worthwhile
    groups = where(grouped, count, count // width * ceil_div(width, SLICE_WIDTH))
    ranges = where(cpu, 1, shared_ranges(groups, length))
    runs = count // width * ceil_div(width, SCATTER_ADJACENT)
    single_lines = ~cpu | (index.dim() == 0) | (d == last)
    out = plan.result("out", initial=self)
    plan.parameters(
        dim=d,
        n=length,
        size=out.size(d),
        ranges=ranges,
        index_stride=index.stride(d),
        out_stride=out.stride(d),
    )
    grouping = where(grouped, where(ranges > 1, LINE_OF_GROUPS, LINE_OF_GROUP), NO_GROUPS)
    plan.constants(GROUPED=grouping)
    return _Lines(
        dim=d,
        total=count,
        name_slices=name_slices,
        items=where(grouped, count * ranges * plan.group_lanes, where(single_lines, count, runs)),
        slice_groups=groups * ranges,
    )


def _reduction_of(reduce: SymString | None) -> Int:
    """The value of REDUCE by its name in PyTorch; a sum without one."""
    if reduce is None:
        return SUM
    names = {
        "sum": SUM, "add": SUM, "prod": PROD, "multiply": PROD, "amax": AMAX, "amin": AMIN,
    }  # fmt: skip
    reduction: Int = MEAN
    for name, number in reversed(names.items()):
        reduction = where(reduce == name, number, reduction)
    return reduction


def scatter(overloads: str, dtypes: Sequence[torch.dtype], *, reduces: bool = True) -> Definition:
    """Writes elements of a tensor, or a number, to indices.

    `reduces`: it writes sums, products, extremes and means with them; with separate definitions for
    numbers and for flags.
    """
    src = "value" not in overloads
    tensors = ("self", "src", "out") if src else ("self", "out")

    @template(
        overloads,
        "indices_in_order scatter",
        dtypes=dtypes,
        accepts=INDEX_DTYPES,
        strided=("index", *tensors[1:]),
        moves=() if reduces else tensors,
        reports=RuntimeError,
    )
    def definition(plan: Plan, self: SymTensor, dim: SymInt, index: SymTensor, **rest: Any) -> None:
        if src:
            plan.operand("src", rest["src"])
        else:
            plan.scalars(rest["value"])
        reduction = _reduction_of(rest.get("reduce"))
        include_self: Bool = rest.get("include_self", True)
        # As on CPU, complex numbers have no maximum or minimum, and flags have no mean.
        if dtypes == COMPLEX:
            plan.require((reduction != AMAX) & (reduction != AMIN))
        if dtypes == BOOL:
            plan.require(reduction != MEAN)
        lines = _lines_of(plan, self, dim, index)
        in_slices = lines.name_slices
        if src:
            plan.parameters(src_stride=rest["src"].stride(lines.dim))
        if reduces:
            # Counts the elements written to each index, for means and for indices without any.
            counts = where(include_self, reduction == MEAN, True)
            counted = where(counts, lines.total * self.size(lines.dim), 1)
            plan.temporary("count", counted, torch.int32, initial=0)
            plan.constants(REDUCE=reduction, INCLUDE_SELF=include_self, BOOLEAN=dtypes == BOOL)
            in_slices = ~counts & in_slices
        plan.launch("scatter", lines.items, when=~in_slices)
        plan.launch("scatter_slices", groups=lines.slice_groups, when=in_slices)

    return definition


# ---- Assertions, which the next synchronization raises

_asserting = partial(
    template,
    source="""
        __kernel void assertion(OB_PARAMETERS) {
          OB_BEGIN
          OB_ITEM(i)
          if (self_load(i) == 0) { OB_REPORT }
        }
        """,
    dtypes=ORDERED,
    reports=RuntimeError("Expected Tensor with single nonzero value, but got zero,"),
)


@_asserting("_assert_async")
def asserted(plan: Plan, self: SymTensor) -> None:
    """Raises for zero."""
    plan.require(self.numel() == 1)
    plan.launch("assertion", 1)


@_asserting("_functional_assert_async.msg", accepts={"dep_token": ANY})
def functionally_asserted(plan: Plan, self: SymTensor, dep_token: SymTensor) -> None:
    """Raises for zero, and copies a tensor, for the order of operators."""
    plan.require(self.numel() == 1)
    plan.result("out", dep_token.shape, dep_token, initial=dep_token)
    plan.launch("assertion", 1)
