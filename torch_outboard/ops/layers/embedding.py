"""Embeddings, bags of them, and the gradients.

Indices out of range are left out; those of the forward functions are reported.
"""

from __future__ import annotations

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

_INDEX = "int32 int64"
# Groups that share the rows: more where a row keeps a group busy, and on a GPU, whose groups have
# several rows in work.
_RANGES = "group_lanes > 1 ? (n >= 256 ? 1024 : 256) : n >= 512 ? 64 : n >= 128 ? 32 : 8"


def rows() -> list[Row]:
    """Every row."""
    return [
        templated(
            "embedding embedding.out",
            "embedding",
            Launch("embedding", "numel(indices)", groups=True),
            dtypes=FLOATS,
            operands="weight indices",
            accepts={"indices": _INDEX},
            results=Result("out", "sizes(indices) + sizes(weight)[1:]"),
            conditions=["dims(weight) == 2", "size(weight, 0) > 0"],
            numbers={"n": "size(weight, 1)", "row_count": "size(weight, 0)"},
            items_of="weight out",
            reports="IndexError",
            family="embedding",
        ),
        _dense_backward(),
        *_bags(),
        *_bags_backward(),
        templated(
            "_embedding_bag_per_sample_weights_backward"
            " _embedding_bag_per_sample_weights_backward.out",
            "rows embedding_bag_weights_backward",
            Launch("embedding_bag_weights_backward", "numel(indices)", groups=True),
            dtypes=FLOATS,
            operands="grad weight indices offset2bag",
            accepts={"indices": _INDEX, "offset2bag": _INDEX},
            results=Result("out", "sizes(indices)"),
            requires={"offsets": "dtype int32 int64"},
            conditions=[
                "mode == 0",
                "dims(grad) == 2 && dims(weight) == 2 && size(grad, 1) == size(weight, 1)",
                "dims(indices) == 1 && sizes(offset2bag) == sizes(indices)",
                "numel(weight) > 0 && numel(grad) > 0",
            ],
            numbers={
                "n": "size(weight, 1)",
                "row_count": "size(weight, 0)",
                "bags": "size(grad, 0)",
                "padding": "padding_idx",
            },
            vectors=True,
            family="embedding_backward",
        ),
        templated(
            "embedding_renorm_",
            "embedding_renorm",
            [
                Launch("embedding_renorm_choose", "numel(indices)"),
                Launch("embedding_renorm", "numel(indices)", groups=True),
            ],
            dtypes=FLOATS,
            operands="self indices",
            accepts={"indices": _INDEX},
            results=Result("out", initial="self"),
            temporaries=[Result("chosen", "size(self, 0)", "int32", initial="-1")],
            conditions=["dims(self) == 2", "numel(self) > 0", "norm_type > 0"],
            numbers={"n": "size(self, 1)", "row_count": "size(self, 0)"},
            reals={"limit": "max_norm", "order": "norm_type"},
            constants={
                "NORM": "norm_type > 1e300 ? 0 : norm_type == 1 ? 1 : norm_type == 2 ? 2 : 3"
            },
            family="embedding",
        ),
    ]


def _dense_backward() -> Row:
    return templated(
        "embedding_dense_backward embedding_dense_backward.out",
        "rows places_in_order embedding_backward",
        Launch("embedding_backward", "ranges", groups=True),
        dtypes=FLOATS,
        operands="grad_output indices",
        accepts={"indices": _INDEX},
        let={"n": "size(grad_output, -1)", "ranges": _RANGES},
        results=Result("out", "[num_weights, n]", initial="0"),
        temporaries=[
            Result("counts", "scale_grad_by_freq ? num_weights : 1", "int32", initial="0")
        ],
        conditions=[
            "num_weights > 0 && n > 0 && dims(grad_output) == dims(indices) + 1",
            "sizes(grad_output)[:-1] == sizes(indices)",
        ],
        numbers={
            "n": "n",
            "row_count": "num_weights",
            "index_count": "numel(indices)",
            "padding": "padding_idx",
            "ranges": "ranges",
        },
        constants={"BY_FREQUENCY": "scale_grad_by_freq", "BAG": "0"},
        vectors=True,
        family="embedding_backward",
    )


def _bags() -> list[Row]:
    def row(name: str, integer: str) -> Row:
        # Offsets and indices of different dtypes are converted by the host.
        return templated(
            f"{name} {name}.out",
            "rows embedding_bag",
            Launch("embedding_bag", "bags", groups=True),
            dtypes=FLOATS,
            operands="weight indices offsets per_sample_weights?",
            accepts={"indices": integer, "offsets": integer},
            let={
                "n": "size(weight, 1)",
                "bags": "size(offsets, 0) - (include_last_offset ? 1 : 0)",
            },
            results=[
                Result("out", "[bags, n]"),
                Result("offset2bag", "sizes(indices)", "indices", initial="0"),
                Result("bag_size", "[bags]", "indices"),
                Result("maximum", "mode == 2 ? [bags, n] : [bags]", "indices"),
            ],
            conditions=[
                "dims(weight) == 2 && dims(indices) == 1 && dims(offsets) == 1",
                "numel(weight) > 0 && bags > 0 && size(offsets, 0) > 0",
                "mode >= 0 && mode <= 2",
                "given(per_sample_weights)"
                " ? mode == 0 && sizes(per_sample_weights) == sizes(indices) : 1",
            ],
            numbers={
                "n": "n",
                "row_count": "size(weight, 0)",
                "index_count": "numel(indices)",
                "offset_count": "size(offsets, 0)",
                "padding": "padding_idx",
            },
            constants={"MODE": "mode"},
            reports="RuntimeError",
            vectors=True,
            family="embedding",
        )

    return [
        row(name, integer)
        for name in ("_embedding_bag", "_embedding_bag_forward_only")
        for integer in ("int64", "int32")
    ]


def _bags_backward() -> list[Row]:
    dense = "_embedding_bag_dense_backward _embedding_bag_dense_backward.out"
    rows = []
    for overloads, dense_only in ((dense, []), ("_embedding_bag_backward", ["!sparse"])):
        common = [
            *dense_only,
            "dims(grad) == 2 && dims(indices) == 1 && num_weights > 0 && numel(grad) > 0",
            "sizes(bag_size) == [size(grad, 0)]",
        ]
        let = {"n": "size(grad, 1)", "ranges": _RANGES}
        result = Result("out", "[num_weights, n]", initial="0")
        rows += [
            templated(
                overloads,
                "rows places_in_order embedding_backward",
                Launch("embedding_backward", "ranges", groups=True),
                dtypes=FLOATS,
                operands="grad indices offset2bag bag_size per_sample_weights?",
                accepts=dict.fromkeys(("indices", "offset2bag", "bag_size"), _INDEX),
                let=let,
                results=result,
                temporaries=[
                    Result("counts", "scale_grad_by_freq ? num_weights : 1", "int32", initial="0")
                ],
                requires=(
                    {"offsets": "dtype int32 int64"}
                    if overloads == "_embedding_bag_backward"
                    else {}
                ),
                conditions=[
                    *common,
                    "mode == 0 || mode == 1",
                    "sizes(offset2bag) == sizes(indices)",
                    "given(per_sample_weights) ? sizes(per_sample_weights) == sizes(indices) : 1",
                ],
                numbers={
                    "n": "n",
                    "row_count": "num_weights",
                    "index_count": "numel(indices)",
                    "padding": "padding_idx",
                    "ranges": "ranges",
                    "bags": "size(grad, 0)",
                },
                constants={"BY_FREQUENCY": "scale_grad_by_freq", "BAG": "1", "MODE": "mode"},
                vectors=True,
                family="embedding_backward",
            ),
            templated(
                overloads,
                "embedding_bag_maximum_backward",
                Launch("embedding_bag_maximum_backward", "n"),
                dtypes=FLOATS,
                operands="grad maximum_indices bag_size",
                accepts=dict.fromkeys(("maximum_indices", "bag_size"), _INDEX),
                let={"n": "size(grad, 1)"},
                results=result,
                conditions=[*common, "mode == 2", "sizes(maximum_indices) == sizes(grad)"],
                numbers={"n": "n", "row_count": "num_weights", "bags": "size(grad, 0)"},
                family="embedding_backward",
            ),
        ]
    return rows
