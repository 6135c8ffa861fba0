"""Advanced indexing: `x[i]`, `x[:, i, j]`, `x[mask]` and what is written there.

A single index tensor has kernels of its own; anything else is put together from operators on flat
places (csrc/device_kernels/composed/advanced_indexing.cpp).
"""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.composed import composed
from torch_outboard.ops.indexing.gather_scatter import SELECT, ranges
from torch_outboard.ops.row import COMPLEX, EVERY, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

# Where the only index tensor stands, and what it selects. Later dimensions are not mentioned.
SINGLE_INDEX = {
    "d": "len(indices) - 1",
    "n": "size(self, d)",
    "selected": "sizes(self)[:d] + sizes(index) + sizes(self)[d + 1:]",
    "after": "prod(sizes(self)[d + 1:])",
}
SINGLE_CONDITIONS = ["sum(indices) == 1", "d < dims(self)", "n > 0 || numel(index) == 0"]
INDEX_DTYPES = {"index": "int32 int64"}  # uint8 would be a mask
# How many places a work item of index_put takes one after the other. Sums are always in order.
IN_ORDER = "max(numel(index), 1)"
# Of so many the last of equal ones wins on a GPU, too: groups look through all of them.
FEW_PLACES = 65_536
BLOCK = f"deterministic || ordered ? {IN_ORDER} : group_lanes > 1 ? 1 : 4096"
BLOCKS = "prod(sizes(self)[:d]) * ((numel(index) + block - 1) // block)"


def put(accumulate: bool) -> Row:
    """Values, or a single one, at the places of one index tensor."""
    return templated(
        "_index_put_impl_",
        "places_in_order index_put",
        [
            Launch("index_put", f"after == 0 ? 0 : {BLOCKS}", when="after < 32 && !ordered"),
            Launch(
                "index_put_slices",
                f"{BLOCKS} * ((after + 255) // 256) * ranges",  # OB_SLICE
                groups=True,
                when="after >= 32 || ordered",
            ),
        ],
        dtypes=(*FLOATS, *INTEGERS, *COMPLEX) if accumulate else EVERY,
        operands="self index=indices[-1] values",
        accepts=INDEX_DTYPES,
        results=Result("out", initial="self"),
        let=SINGLE_INDEX
        | {
            "ordered": "group_lanes > 1"
            + ("" if accumulate else f" && (deterministic || numel(index) <= {FEW_PLACES})"),
            "block": IN_ORDER if accumulate else BLOCK,
            "slices": "prod(sizes(self)[:d]) * ((after + 255) // 256)",
            "ranges": f"ordered ? ({ranges('slices', 'numel(index)')}) : 1",
        },
        conditions=[
            *SINGLE_CONDITIONS,
            "accumulate" if accumulate else "!accumulate",
            "numel(values) == 1 || sizes(values) == selected",
        ],
        numbers={
            "n": "n",
            "count": "numel(index)",
            "after": "after",
            "block": "block",
            "ranges": "ranges",
            "single_value": "numel(values) == 1",
        },
        constants={"ACCUMULATE": str(int(accumulate)), "ORDERED": "ordered"},
        items_of="" if accumulate else "self values out",
        reports="IndexError",
        family="indexing",
    )


def by_single_index() -> list[Row]:
    """Operators with one index tensor and nothing for the dimensions before it."""
    return [
        templated(
            "index.Tensor index.Tensor_out _unsafe_index.Tensor",
            "index_select",
            SELECT,
            dtypes=EVERY,
            operands="self index=indices[-1]",
            accepts=INDEX_DTYPES,
            results=Result("out", "selected"),
            let=SINGLE_INDEX,
            # Otherwise the result has another order in memory.
            conditions=[*SINGLE_CONDITIONS, "row_major(self) && row_major(index)"],
            numbers={"n": "n", "count": "numel(index)", "after": "after"},
            constants={"WRAP": "1"},
            items_of="self out",
            reports="IndexError",
            family="indexing",
        ),
        put(accumulate=False),
        put(accumulate=True),
    ]


def by_lists() -> list[Row]:
    """Operators with one index tensor, mask or nothing per dimension."""
    common: dict[str, Any] = {
        "cpu_arguments": True,
        "reports": "IndexError",
        "family": "indexing",
    }
    return [
        composed("index.Tensor index.Tensor_out", "index", **common),
        composed(
            "_unsafe_index.Tensor", "index", requires={"indices": "dtype int32 int64"}, **common
        ),
        composed("_index_put_impl_", "index_put", **common),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [*by_single_index(), *by_lists()]
