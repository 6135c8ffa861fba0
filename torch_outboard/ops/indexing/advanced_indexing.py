"""Advanced indexing: reads and writes of `x[i]`, `x[:, i, j]` and `x[mask]`.

A single index tensor has its own kernels; every other case is a decomposition into operators on
flat indices (csrc/device_kernels/decompositions/advanced_indexing.cpp).
"""

from functools import partial
from typing import NamedTuple

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import EVERY, INDICES, NUMBERS, Definition
from torch_outboard.ops.indexing.gather_scatter import (
    SLICE_WIDTH,
    launch_select,
    selecting,
    shared_ranges,
)
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
    by_lists = partial(decomposition, cpu_arguments=True, reports=IndexError)
    return [
        # With a single index tensor; the dimensions before it have none.
        index,
        put(accumulates=False),
        put(accumulates=True),
        # With one index tensor, mask or nothing per dimension.
        by_lists("index.Tensor index.Tensor_out", "index"),
        by_lists("_index_put_impl_", "index_put"),
    ]


INDEX_DTYPES = {"index": INDICES}  # a uint8 tensor is a mask
# Up to this many indices a GPU, like CPU, keeps the last value of duplicates: each work-group scans
# all indices.
FEW_INDICES = 65_536


class _Selection(NamedTuple):
    """The selection by the only index tensor, which is the last of `indices`."""

    total: SymInt  # number of indices
    n: SymInt  # size of the indexed dimension
    shape: SymInts
    before: SymInt  # elements of the dimensions before the indexed one
    after: SymInt  # elements of the dimensions after it


def _selection(plan: Plan, self: SymTensor, indices: SymTensors, index: SymTensor) -> _Selection:
    d = indices.len() - 1
    n, count = self.size(d), index.numel()
    plan.require(indices.given().sum() == 1, d < self.dim(), (n > 0) | (count == 0))
    before, after = self.shape[:d], self.shape[d + 1 :]
    return _Selection(count, n, before + index.shape + after, before.prod(), after.prod())


@selecting("index.Tensor index.Tensor_out", accepts=INDEX_DTYPES, reports=IndexError)
def index(plan: Plan, self: SymTensor, indices: SymTensors) -> None:
    """Slices at the indices of one tensor."""
    index = plan.operand("index", indices[-1])
    selected = _selection(plan, self, indices, index)
    # Other layouts give a result with other strides.
    plan.require(self.is_contiguous() & index.is_contiguous())
    out = plan.result("out", selected.shape)
    plan.parameters(n=selected.n, count=selected.total, after=selected.after)
    plan.constants(WRAP=1)
    launch_select(plan, out, selected.after)


def put(accumulates: bool) -> Definition:
    """Writes or adds values, or a single value, at the indices of one tensor."""

    @template(
        "_index_put_impl_",
        "indices_in_order index_put",
        dtypes=NUMBERS if accumulates else EVERY,
        accepts=INDEX_DTYPES,
        moves=() if accumulates else ("self", "values", "out"),
        reports=IndexError,
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
        # Whether work-groups of a GPU write in the order of the indices; always so for sums.
        in_order = plan.deterministic | (count <= FEW_INDICES) | accumulates
        ordered = ~plan.on_processor & in_order
        # Indices that a work-item processes sequentially.
        several = where(plan.on_processor, 4096, 1)
        all_at_once = plan.deterministic | ordered | accumulates
        block = where(all_at_once, maximum(count, 1), several)
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
