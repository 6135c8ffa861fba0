"""Advanced indexing: `x[i]`, `x[:, i, j]`, `x[mask]` and what is written there.

A single index tensor has kernels of its own; anything else is put together from operators on flat
indices (csrc/device_kernels/decompositions/advanced_indexing.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import COMPLEX, EVERY, FLOATS, INTEGERS, Definition
from torch_outboard.ops.indexing.gather_scatter import SLICE_WIDTH, launch_select, shared_ranges
from torch_outboard.ops.requirements import Requirement, of_dtype
from torch_outboard.ops.symbolic import (
    SymBool,
    SymInt,
    SymInts,
    SymTensor,
    SymTensors,
    ceil_div,
    maximum,
    where,
)
from torch_outboard.ops.template import Plan, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [*by_single_index(), *by_lists()]


def by_single_index() -> list[Definition]:
    """Operators with one index tensor and nothing for the dimensions before it."""
    return [index(), put(accumulates=False), put(accumulates=True)]


INDEX_DTYPES = {"index": (torch.int32, torch.int64)}  # uint8 would be a mask
# Of so many the last of equal ones wins on a GPU, too: groups look through all of them.
FEW_INDICES = 65_536


class _Selection(NamedTuple):
    """The selection by the only index tensor. `indices` do not mention later dimensions."""

    total: SymInt  # of indices
    n: SymInt  # size of the dimension that they are for
    shape: SymInts
    before: SymInt  # elements of the dimensions before it
    after: SymInt  # and behind it


def _selection(plan: Plan, self: SymTensor, indices: SymTensors, index: SymTensor) -> _Selection:
    d = indices.len() - 1
    n, count = self.size(d), index.numel()
    plan.require(indices.given().sum() == 1, d < self.dim(), (n > 0) | (count == 0))
    before, after = self.shape[:d], self.shape[d + 1 :]
    return _Selection(count, n, before + index.shape + after, before.prod(), after.prod())


def index() -> Definition:
    """Slices at the indices of one tensor."""

    @template(
        "index.Tensor index.Tensor_out _unsafe_index.Tensor",
        "index_select",
        dtypes=EVERY,
        accepts=INDEX_DTYPES,
        moves=("self", "out"),
        reports="IndexError",
        family="indexing",
    )
    def definition(plan: Plan, self: SymTensor, indices: SymTensors) -> None:
        index = plan.operand("index", indices[-1])
        selected = _selection(plan, self, indices, index)
        # Otherwise the result has another order in memory.
        plan.require(self.is_contiguous() & index.is_contiguous())
        out = plan.result("out", selected.shape)
        plan.parameters(n=selected.n, count=selected.total, after=selected.after)
        plan.constants(WRAP=1)
        launch_select(plan, out, selected.after)

    return definition


def _in_order(plan: Plan, count: SymInt, accumulates: bool) -> SymBool:
    """Whether groups of a GPU write in the order of the indices; sums always are in order."""
    if accumulates:
        return ~plan.on_processor
    return ~plan.on_processor & (plan.deterministic | (count <= FEW_INDICES))


def _block(plan: Plan, count: SymInt, ordered: SymBool, accumulates: bool) -> SymInt:
    """How many indices a work-item takes one after the other."""
    every = maximum(count, 1)
    if accumulates:
        return every
    return where(plan.deterministic | ordered, every, where(plan.on_processor, 4096, 1))


def put(accumulates: bool) -> Definition:
    """Values, or a single one, written at the indices of one tensor, or added there."""

    @template(
        "_index_put_impl_",
        "places_in_order index_put",
        dtypes=(*FLOATS, *INTEGERS, *COMPLEX) if accumulates else EVERY,
        accepts=INDEX_DTYPES,
        moves=() if accumulates else ("self", "values", "out"),
        reports="IndexError",
        family="indexing",
    )
    def definition(
        plan: Plan, self: SymTensor, indices: SymTensors, values: SymTensor, accumulate: SymBool
    ) -> None:
        index = plan.operand("index", indices[-1])
        selected = _selection(plan, self, indices, index)
        single_value = values.numel() == 1
        plan.require(
            accumulate if accumulates else ~accumulate,
            single_value | (values.shape == selected.shape),
        )
        count, after = selected.total, selected.after
        ordered = _in_order(plan, count, accumulates)
        block = _block(plan, count, ordered, accumulates)
        blocks = selected.before * ceil_div(count, block)
        widths = ceil_div(after, SLICE_WIDTH)
        ranges = where(ordered, shared_ranges(selected.before * widths, count), 1)

        plan.result("out", initial=self)
        plan.parameters(
            n=selected.n,
            count=count,
            after=after,
            block=block,
            ranges=ranges,
            single_value=single_value,
        )
        plan.constants(ACCUMULATE=accumulates, ORDERED=ordered)
        in_slices = (after >= 32) | ordered
        plan.launch("index_put", where(after == 0, 0, blocks), when=~in_slices)
        plan.launch("index_put_slices", groups=blocks * widths * ranges, when=in_slices)

    return definition


def by_lists() -> list[Definition]:
    """Operators with one index tensor, mask or nothing per dimension."""
    integers = of_dtype(torch.int32, torch.int64)
    return [
        _by_list("index.Tensor index.Tensor_out", "index"),
        _by_list("_unsafe_index.Tensor", "index", requires={"indices": integers}),
        _by_list("_index_put_impl_", "index_put"),
    ]


def _by_list(
    overloads: str, body: str, requires: Mapping[str, Requirement] | None = None
) -> Definition:
    return decomposition(
        overloads,
        body,
        requires=requires,
        cpu_arguments=True,
        reports="IndexError",
        family="indexing",
    )
