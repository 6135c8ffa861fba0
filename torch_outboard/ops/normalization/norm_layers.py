"""Normalization of rows, channels and groups of channels, and the gradients.

Weights and statistics have the dtype of the input, or are float32 where that is half or bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

HALVES = (torch.float16, torch.bfloat16)


def rows() -> list[Row]:
    """Every row."""
    return [
        row
        for mixed in (False, True)
        for row in (
            _layer_norm(mixed),
            _layer_norm_backward(mixed),
            *_batch_norm(mixed, rounded=False, in_parts=False),
            *_batch_norm(mixed, rounded=True, in_parts=False),
            *_batch_norm(mixed, rounded=False, in_parts=True),
            *_batch_norm(mixed, rounded=True, in_parts=True),
            *_batch_norm_backward(mixed, in_parts=False),
            *_batch_norm_backward(mixed, in_parts=True),
            _group_norm(mixed),
            _group_norm_backward(mixed),
        )
    ]


def _dtypes(mixed: bool) -> tuple[torch.dtype, ...]:
    return HALVES if mixed else FLOATS


def _accepts(mixed: bool, names: str) -> dict[str, str]:
    """What a row accepts as weights and statistics."""
    return dict.fromkeys(names.split(), "float32") if mixed else {}


def _some_float32(mixed: bool, names: str) -> list[str]:
    """A mixed row is not meant for calls without any weight or statistics."""
    return [" || ".join(f"given({name})" for name in names.split())] if mixed else []


def _fits(names: str, sizes: str) -> list[str]:
    """Conditions that each tensor, if given, has these sizes."""
    return [f"given({name}) ? sizes({name}) == {sizes} : 1" for name in names.split()]


def _statistics(mixed: bool, names: str, sizes: str) -> list[Result]:
    return [Result(name, sizes, "float32" if mixed else "") for name in names.split()]


_LAYER = {
    "n": "prod(normalized_shape)",
    "axis": "dims(input) - len(normalized_shape)",
    "row_count": "prod(sizes(input)[:axis])",
}
_LAYER_CONDITIONS = [
    "len(normalized_shape) > 0 && axis >= 0",
    "n > 0",
    "sizes(input)[axis:] == normalized_shape",
    *_fits("weight bias", "normalized_shape"),
]


def _layer_norm(mixed: bool) -> Row:
    return templated(
        "native_layer_norm native_layer_norm.out",
        "rows layer_norm",
        Launch("layer_norm", "row_count", groups=True),
        dtypes=_dtypes(mixed),
        operands="input weight? bias?",
        accepts=_accepts(mixed, "weight bias"),
        let=_LAYER,
        conditions=[*_LAYER_CONDITIONS, *_some_float32(mixed, "weight bias")],
        results=[
            Result("out"),
            *_statistics(
                mixed, "mean rstd", "sizes(input)[:axis] + fill(1, len(normalized_shape))"
            ),
        ],
        numbers={"n": "n"},
        reals={"eps": "eps"},
        vectors=True,
        family="normalization",
    )


def _layer_norm_backward(mixed: bool) -> Row:
    dtype = "float32" if mixed else ""
    columns = "output_mask[1] || output_mask[2]"
    return templated(
        "native_layer_norm_backward native_layer_norm_backward.out",
        "rows layer_norm_backward",
        [
            Launch(
                "layer_norm_backward",
                f"group_lanes == 1 ? chunks : "
                f"(({columns}) ? chunks * tiles : 0) + (output_mask[0] ? row_count : 0)",
                groups=True,
            ),
            Launch(
                "layer_norm_columns",
                "group_lanes == 1 ? n : "
                "(n + min(group_lanes, 32) - 1) // min(group_lanes, 32) * group_lanes",
                when=columns,
            ),
        ],
        dtypes=_dtypes(mixed),
        operands="grad_out input mean rstd weight? bias?",
        accepts=_accepts(mixed, "mean rstd weight bias"),
        let={
            **_LAYER,
            # Work items of a group of a GPU take `tile` columns, or narrow rows in slices.
            "tile": "group_lanes == 1 ? n : 4 * group_lanes",
            "tiles": "(n + tile - 1) // tile",
            "slices": "group_lanes == 1 ? 1 : max(min(tile // n, group_lanes), 1)",
            "wanted": "group_lanes == 1 ? 64 : max(8 * processors // tiles, 1)",
            "least": "group_lanes == 1 ? 1 : 16 * slices",
            "chunk_rows": "max((row_count + wanted - 1) // wanted, least)",
            "chunks": "(row_count + chunk_rows - 1) // chunk_rows",
        },
        conditions=[
            *_LAYER_CONDITIONS,
            "sizes(grad_out) == sizes(input)",
            "numel(mean) == row_count && numel(rstd) == row_count",
        ],
        results=[
            Result("grad_input", "sizes(input)", wanted="output_mask[0]"),
            Result("grad_weight", "normalized_shape", dtype, wanted="output_mask[1]"),
            Result("grad_bias", "normalized_shape", dtype, wanted="output_mask[2]"),
        ],
        temporaries=[
            Result(name, f"({columns}) ? max(chunks * slices * n, 1) : 1", "value")
            for name in ("weight_parts", "bias_parts")
        ],
        numbers={
            "n": "n",
            "row_count": "row_count",
            "chunks": f"group_lanes > 1 && !({columns}) ? 0 : chunks",
            "chunk_rows": "chunk_rows",
            "tile": "tile",
            "tiles": "tiles",
            "slices": "slices",
        },
        vectors=True,
        family="normalization",
    )


_CHANNELS = {
    "channels": "size(input, 1)",
    "blocks": "size(input, 0)",
    "n": "prod(sizes(input)[2:])",
    # Of each channel: a GPU has room for some groups in each of its processors.
    "parts": "group_lanes == 1 ? 1 : max(1, min(blocks * n // (16 * group_lanes),"
    " (8 * processors + channels - 1) // channels))",
}
_CHANNEL_NUMBERS = {"n": "n", "blocks": "blocks", "channels": "channels"}
_STATISTICS = "running_mean running_var"


def _in_parts(launches: Sequence[Launch], temporaries: str) -> dict[str, Any]:
    """What rows have in common whose groups take parts of channels."""
    return {
        "launches": launches,
        "numbers": {**_CHANNEL_NUMBERS, "parts": "parts"},
        "temporaries": [Result(name, "channels * parts", "value") for name in temporaries.split()],
    }


def _batch_norm(mixed: bool, rounded: bool, in_parts: bool) -> list[Row]:
    # Of bfloat16 CPU rounds the mean and the sum of squares before it makes anything of them.
    dtypes = [d for d in _dtypes(mixed) if (d == torch.bfloat16) == rounded]

    def row(
        overload: str,
        statistics: str,
        training: str,
        saved: str = "",
        more: Sequence[Result] = (),
    ) -> Row:
        # Without training nothing is saved, and outputs given for it stay as they are.
        sizes = [f"sizes({name})" for name in saved.split()] or ["[0]", "[0]"]
        given = (
            "given(running_mean) && given(running_var)"
            if statistics and training != "1"
            else training
        )
        # Written, if so, where they are: a copy would be of no use.
        conditions = [
            f"given({name}) ? size({name}, 0) == 1 || stride({name}, 0) == 1 : 1"
            for name in statistics.replace("?", "").split()
        ]
        names = f"weight bias {statistics}".replace("?", "")
        work: dict[str, Any] = {
            "launches": Launch("batch_norm", "channels", groups=True),
            "numbers": _CHANNEL_NUMBERS,
        }
        if in_parts:
            work = _in_parts(
                [
                    Launch("batch_norm_parts", "channels * parts", groups=True, when=training),
                    Launch("batch_norm_statistics", "channels", groups=True, when=training),
                    Launch("batch_norm_results", "channels * parts", groups=True),
                ],
                "averages variations",
            )
        return templated(
            overload,
            f"rows channels batch_norm{'_parts' if in_parts else ''}",
            **work,
            dtypes=dtypes,
            operands=f"input weight? bias? {statistics}",
            accepts=_accepts(mixed, names),
            let=_CHANNELS,
            conditions=[
                "dims(input) >= 2 && numel(input) > 0",
                f"parts {'>' if in_parts else '=='} 1",
                f"({training}) || ({given})",
                *_fits(names, "[channels]"),
                *conditions,
                *_some_float32(mixed, names),
            ],
            results=[
                Result("out", memory_format="input"),
                *_statistics(mixed, "mean", f"({training}) ? [channels] : {sizes[0]}"),
                *_statistics(mixed, "rstd", f"({training}) ? [channels] : {sizes[1]}"),
                *more,
            ],
            reals={"momentum": "momentum", "eps": "eps"},
            constants={"TRAINING": training, "ROUNDED": str(int(rounded))},
            vectors=True,
            family="normalization",
        )

    optional = "running_mean? running_var?"
    legit = "_native_batch_norm_legit"
    saved = "save_mean save_invstd"
    reserved = [Result("reserved", "[0]", "uint8")]
    return [
        row("native_batch_norm", optional, "training"),
        row("native_batch_norm.out", optional, "training", saved),
        row(legit, _STATISTICS, "training"),
        row(f"{legit}.out", _STATISTICS, "training", saved),
        row(f"{legit}.no_stats", "", "training"),
        row(f"{legit}.no_stats_out", "", "training", saved),
        row(f"{legit}_no_training", _STATISTICS, "0"),
        row(f"{legit}_no_training.out", _STATISTICS, "0", "out1 out2"),
        row("_batch_norm_with_update", _STATISTICS, "1", more=reserved),
        row("_batch_norm_with_update.out", _STATISTICS, "1", more=reserved),
    ]


def _batch_norm_backward(mixed: bool, in_parts: bool) -> list[Row]:
    dtype = "float32" if mixed else ""
    name = "batch_norm_backward"
    work: dict[str, Any] = {
        "launches": Launch(name, "channels", groups=True),
        "numbers": _CHANNEL_NUMBERS,
    }
    if in_parts:
        parts, results = (
            Launch(f"{name}_{step}", "channels * parts", groups=True)
            for step in ("parts", "results")
        )
        work = _in_parts([parts, results], "totals products")

    def row(overloads: str, weight: str, inverse: str, training: str) -> Row:
        names = f"weight running_mean running_var save_mean {inverse}"
        return templated(
            overloads,
            f"rows channels {name}{'_parts' if in_parts else ''}",
            **work,
            dtypes=_dtypes(mixed),
            operands=f"grad_out input {weight} running_mean? running_var? save_mean? {inverse}?",
            accepts=_accepts(mixed, names),
            let=_CHANNELS,
            conditions=[
                "dims(input) >= 2 && numel(input) > 0",
                f"parts {'>' if in_parts else '=='} 1",
                "sizes(grad_out) == sizes(input)",
                f"{training} ? given(save_mean) && given({inverse})"
                " : given(running_mean) && given(running_var)",
                f"{training} ? sizes(save_mean) + sizes({inverse}) == [channels, channels] : 1",
                *_fits("weight running_mean running_var", "[channels]"),
            ],
            results=[
                Result(
                    "grad_input", "sizes(input)", memory_format="input", wanted="output_mask[0]"
                ),
                Result("grad_weight", "[channels]", dtype, wanted="output_mask[1]"),
                Result("grad_bias", "[channels]", dtype, wanted="output_mask[2]"),
            ],
            reals={"eps": "eps"},
            constants={"TRAINING": training},
            vectors=True,
            family="normalization",
        )

    return [
        row(
            "native_batch_norm_backward native_batch_norm_backward.out",
            "weight?",
            "save_invstd",
            "train",
        ),
        row("batch_norm_backward", "weight", "save_var", "update"),
    ]


_GROUPS = {"blocks": "C // group"}
_GROUP_CONDITIONS = [
    "group > 0 && N >= 0 && C > 0 && HxW > 0",
    "C % group == 0",
    "numel(input) == N * C * HxW",
]


def _group_norm(mixed: bool) -> Row:
    return templated(
        "native_group_norm native_group_norm.out",
        "rows channels group_norm",
        Launch("group_norm", "N * group", groups=True),
        dtypes=_dtypes(mixed),
        operands="input weight? bias?",
        accepts=_accepts(mixed, "weight bias"),
        let=_GROUPS,
        conditions=[
            *_GROUP_CONDITIONS,
            *_fits("weight bias", "[C]"),
            *_some_float32(mixed, "weight bias"),
        ],
        results=[
            Result("out", memory_format="input"),
            *_statistics(mixed, "mean rstd", "[N, group]"),
        ],
        numbers={"n": "HxW", "blocks": "blocks", "groups": "group"},
        reals={"eps": "eps"},
        vectors=True,
        family="normalization",
    )


def _group_norm_backward(mixed: bool) -> Row:
    dtype = "float32" if mixed else ""
    return templated(
        "native_group_norm_backward native_group_norm_backward.out",
        "rows group_norm_backward",
        [
            Launch("group_norm_sums", "N * C", groups=True),
            Launch("group_norm_input", "N * C", groups=True, when="output_mask[0]"),
            Launch("group_norm_channels", "C", when="output_mask[1] || output_mask[2]"),
        ],
        dtypes=_dtypes(mixed),
        operands="grad_out input mean rstd weight?",
        accepts=_accepts(mixed, "mean rstd weight"),
        let=_GROUPS,
        conditions=[
            *_GROUP_CONDITIONS,
            "sizes(grad_out) == sizes(input)",
            "sizes(mean) == [N, group] && sizes(rstd) == [N, group]",
            *_fits("weight", "[C]"),
        ],
        results=[
            Result("grad_input", "sizes(input)", memory_format="input", wanted="output_mask[0]"),
            Result("grad_weight", "[C]", dtype, wanted="output_mask[1]"),
            Result("grad_bias", "[C]", dtype, wanted="output_mask[2]"),
        ],
        temporaries=[Result(name, "N * C", "value") for name in ("totals", "products")],
        numbers={"n": "HxW", "blocks": "blocks", "channels": "C", "batch": "N"},
        vectors=True,
        family="normalization",
    )
