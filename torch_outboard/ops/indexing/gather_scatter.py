"""Operators that read and write at places given by index tensors."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.row import BOOL, COMPLEX, EVERY, FLOATS, INTEGERS, Row, template
from torch_outboard.ops.template import Launch, Result, templated

# uint8 where there is no index at all, which PyTorch lets through.
INDEX_DTYPES = {"index": "int32 int64 uint8"}
# Of index_select.cl: `after` elements of a slice lie together.
SELECT = [
    Launch("select_elements", "numel(out)", when="after < 32"),
    Launch("select_slices", "numel(out) // after", groups=True, when="after >= 32"),
]
REAL = (*FLOATS, *INTEGERS)


def ranges(groups: str, count: str) -> str:
    """How many groups of a GPU share `count` places, as in places_in_order.cl, a power of two."""
    return (
        f"{count} < 256 || ({groups}) >= 512 ? 1 : ({groups}) >= 64 ? 16 : ({groups}) >= 8 ? 128"
        " : 512"
    )


LINES_OF_INDEX = "numel(index) // max(size(index, d), 1)"
# The index repeats along the last dimension: it names slices.
SLICES = "dims(index) > 1 && d < dims(index) - 1 && stride(index, -1) == 0 && size(index, -1) > 1"
# On a GPU a group takes a line whose elements are adjacent, and where there are few long ones.
GROUPED = (
    f"group_lanes > 1 && !({SLICES}) && size(index, d) >= 64"
    f" && (d == dims(index) - 1 || {LINES_OF_INDEX} < 1024 * processors)"
)

LINES: dict[str, Any] = {
    "operands": "self index",
    "let": {
        "d": "wrap(dim, dims(self))",
        "lines": LINES_OF_INDEX,
        "grouped": GROUPED,
        "slices": "max(size(index, -1), 1)",
        "groups": "grouped ? lines : lines // slices * ((slices + 255) // 256)",  # OB_SLICE
        "ranges": f"group_lanes > 1 ? ({ranges('groups', 'size(index, d)')}) : 1",
    },
    "results": Result("out", initial="self"),
    "strided": "index out",
    "numbers": {
        "dim": "d",
        "n": "size(index, d)",
        "size": "size(out, d)",
        "ranges": "ranges",
        "index_stride": "stride(index, d)",
        "out_stride": "stride(out, d)",
    },
    "reports": "RuntimeError",
    "family": "indexing",
}
LINES_OF_SRC: dict[str, Any] = LINES | {
    "operands": "self index src",
    "strided": "index src out",
    "numbers": LINES["numbers"] | {"src_stride": "stride(src, d)"},
}
ADJACENT = 32  # OB_ADJACENT in scatter.cl, on a processor
LINE_ITEMS = (
    "grouped ? lines * ranges * group_lanes : "
    "group_lanes > 1 || dims(index) == 0 || d == dims(index) - 1 ? lines : "
    f"lines // slices * ((slices + {ADJACENT - 1}) // {ADJACENT})"
)

# Of GROUPED in scatter_lines.cl: whether groups share a line.
SHARED = "grouped ? (ranges > 1 ? 2 : 1) : 0"
SCATTER = "places_in_order scatter scatter_lines scatter_slices"
SCATTER_REDUCE = (
    "template",
    "places_in_order",
    "scatter",
    "scatter_reduce",
    "scatter_lines",
    "scatter_slices",
)
SLICE_ITEMS = "groups * ranges"


def scatter(overloads: str, meta: str) -> Row:
    """`out` with elements of `src`, or a number, at the places of `index`."""
    of_src = ".src" in meta
    return templated(
        overloads,
        SCATTER,
        [
            Launch("scatter", LINE_ITEMS, when=f"!({SLICES})"),
            Launch("scatter_slices", SLICE_ITEMS, groups=True, when=SLICES),
        ],
        dtypes=EVERY,
        accepts=INDEX_DTYPES,
        items_of="self src out" if of_src else "self out",
        scalars="" if of_src else "value",
        constants={"GROUPED": SHARED},
        meta=meta,
        **(LINES_OF_SRC if of_src else LINES),
    )


def scatter_reduce(
    overloads: str, meta: str, reduce: str, include_self: str = "1", scalar: bool = False
) -> list[Row]:
    """The same, combined with what is there: a row for numbers and one for flags."""
    counts = f"(({reduce}) == 4 || !({include_self}))"
    return [
        templated(
            overloads,
            "scatter",
            [
                Launch("scatter_reduce", LINE_ITEMS, when=f"{counts} || !({SLICES})"),
                Launch("scatter_slices", SLICE_ITEMS, groups=True, when=f"!({counts}) && {SLICES}"),
            ],
            dtypes=dtypes,
            accepts=INDEX_DTYPES,
            scalars="value" if scalar else "",
            temporaries=[
                Result(
                    "count",
                    f"{counts} ? ({LINES_OF_INDEX}) * size(self, d) : 1",
                    "int32",
                    initial="0",
                )
            ],
            constants={
                "REDUCE": reduce,
                "INCLUDE_SELF": include_self,
                "BOOLEAN": boolean,
                "GROUPED": SHARED,
            },
            meta=meta,
            conditions=conditions,
            **(LINES if scalar else LINES_OF_SRC),
        )
        | {"source": "".join(map(template, SCATTER_REDUCE))}
        for dtypes, boolean, conditions in (
            (REAL, "0", []),
            # As on CPU: there is no order, and no mean.
            (COMPLEX, "0", [f"({reduce}) != 2 && ({reduce}) != 3"]),
            (BOOL, "1", [f"({reduce}) != 4"]),
        )
    ]


def along_dimension() -> list[Row]:
    """Operators with one index tensor for one dimension, which kernels walk along."""
    reduce_code = (
        'reduce == "sum" ? 0 : reduce == "prod" ? 1 : reduce == "amax" ? 2 : '
        'reduce == "amin" ? 3 : 4'
    )
    return [
        templated(
            "index_select index_select.out",
            "index_select",
            SELECT,
            dtypes=EVERY,
            operands="self index",
            accepts=INDEX_DTYPES,
            let={
                "d": "wrap(dim, dims(self))",
                "selected": "dims(self) > 0 ? set(sizes(self), d, numel(index)) : sizes(self)",
                "after": "prod(sizes(self)[d + 1:])",
            },
            conditions=[
                "dims(index) < 2",
                "dims(self) > 0 || numel(index) == 1",
                "dims(self) == 0 || size(self, d) > 0 || numel(index) == 0",
            ],
            results=Result("out", "selected"),
            numbers={
                "n": "size(self, d)",
                "count": "numel(index)",
                "after": "after",
            },
            items_of="self out",
            reports="IndexError",
            family="indexing",
        ),
        scatter("scatter.src scatter.src_out scatter_.src", "aten::scatter.src"),
        scatter("scatter.value scatter.value_out scatter_.value", "aten::scatter.value"),
        *scatter_reduce(
            "scatter.reduce scatter.reduce_out scatter_.reduce",
            "aten::scatter.reduce",
            'reduce == "add" ? 0 : 1',
        ),
        *scatter_reduce(
            "scatter.value_reduce scatter.value_reduce_out scatter_.value_reduce",
            "aten::scatter.value_reduce",
            'reduce == "add" ? 0 : 1',
            scalar=True,
        ),
        *scatter_reduce("scatter_add scatter_add.out scatter_add_", "aten::scatter_add", "0"),
        *scatter_reduce(
            "scatter_reduce.two scatter_reduce.two_out scatter_reduce_.two",
            "aten::scatter_reduce.two",
            f"({reduce_code})",
            "include_self",
        ),
    ]


def of_flat_places() -> list[Row]:
    """Operators whose places count through the whole tensor."""
    blocks = "min(max(n // (group_lanes == 1 ? 64 : 4096), 1), 4096)"
    return [
        templated(
            "take take.out",
            "index_select",
            Launch("select_elements", "numel(index)"),
            dtypes=EVERY,
            operands="self index",
            accepts={"index": "int64"},
            conditions=["numel(self) > 0 || numel(index) == 0"],
            results=Result("out", "sizes(index)"),
            numbers={"n": "numel(self)", "count": "numel(index)", "after": "1"},
            constants={"WRAP": "1"},
            items_of="self out",
            reports="IndexError",
            family="indexing",
        ),
        templated(
            "nonzero nonzero.out",
            "nonzero",
            [
                Launch("count_blocks", "blocks * group_lanes"),
                Launch("add_counts", "1"),
                Launch("write_places", "blocks * group_lanes"),
            ],
            dtypes=EVERY,
            results=Result("out", "[total, dims(self)]", "int64", strides="[1, total]"),
            temporaries=[Result("starts", "blocks + 1", "int64")],
            let={"n": "numel(self)", "blocks": blocks},
            conditions=["dims(self) <= 16"],
            numbers={
                "n": "n",
                "block": "(n + blocks - 1) // blocks",
                "blocks": "blocks",
                "dims": "dims(self)",
            },
            lists={"size": "sizes(self)"},
            strided="out",
            reads={"total": "starts"},
            read_after=2,
            family="indexing",
        ),
    ]


def assertions() -> list[Row]:
    """What is raised by the next wait."""
    return [
        templated(
            overload,
            None,
            Launch("assertion", "1"),
            source="""
            __kernel void assertion(OB_PARAMETERS) {
              OB_BEGIN
              OB_ITEM(i)
              if (self_load(i) == 0) { OB_REPORT }
            }
            """,
            dtypes=(*REAL, *BOOL),
            operands=operands,
            accepts={"dep_token": "any"} if "dep_token" in operands else {},
            results=results,
            conditions=["numel(self) == 1"],
            reports="RuntimeError: Expected Tensor with single nonzero value, but got zero,",
            family="indexing",
        )
        for overload, operands, results in (
            ("_assert_async", "self", []),
            (
                "_functional_assert_async.msg",
                "self dep_token",
                [Result("out", "sizes(dep_token)", "dep_token", initial="dep_token")],
            ),
        )
    ]


def rows() -> list[Row]:
    """Every row."""
    return [
        *assertions(),
        templated(
            "gather gather.out",
            "gather",
            Launch(
                "gather",
                "group_lanes > 1 ? numel(out) : "
                "numel(out) // max(size(out, -1), 1) * ((size(out, -1) + 63) // 64)",
            ),
            dtypes=EVERY,
            operands="self index",
            accepts=INDEX_DTYPES,
            let={"d": "wrap(dim, dims(self))"},
            numbers={"dim": "d", "n": "size(self, d)", "stride": "stride(self, d)"},
            meta="aten::gather",
            items_of="self out",
            strided="self index",
            reports="RuntimeError",
            family="indexing",
        ),
        *along_dimension(),
        *of_flat_places(),
    ]
