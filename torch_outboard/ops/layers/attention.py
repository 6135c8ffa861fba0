"""Scaled dot-product attention: the kernels that torch.nn.functional.scaled_dot_product_attention
takes where PyTorch's rules for CPU say so (csrc/cpu_kernels/operators/attention.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_outboard.ops.row import FLOATS, Row, template
from torch_outboard.ops.template import Launch, Result, templated

# The programs know the size of a head; private memory holds some blocks of such rows.
LARGEST_HEAD = 256
# Registers hold a warp's 16 rows of such heads.
LARGEST_UNIT_HEAD = 128

MASKS = "float32 float64 float16 bfloat16 bool"


def _mask_stride(dimension: int) -> str:
    """Of an argument that has two dimensions or four; a size of one is repeated."""
    plain = f"size(attn_mask, {dimension}) == 1 ? 0 : stride(attn_mask, {dimension})"
    first = "0" if dimension < -2 else f"({plain})"
    return f"given(attn_mask) ? (dims(attn_mask) == 4 ? ({plain}) : {first}) : 0"


NUMBERS = {
    "heads": "size(query, 1)",
    "shared": "size(query, 1) // size(key, 1)",
    "queries": "size(query, 2)",
    "keys": "size(key, 2)",
    "mask_boolean": "given(attn_mask) && bytes(attn_mask) == 1",
    "mask_batch": _mask_stride(-4),
    "mask_head": _mask_stride(-3),
    "mask_query": _mask_stride(-2),
    "mask_key": _mask_stride(-1),
    "has_scale": "given(scale)",
}
CONDITIONS = [
    "dims(query) == 4 && dims(key) == 4 && dims(value) == 4",
    "numel(query) > 0 && numel(key) > 0",
    f"size(query, 3) == size(key, 3) && size(query, 3) <= {LARGEST_HEAD}",
    "sizes(key) == sizes(value) && size(query, 0) == size(key, 0)",
    "size(query, 1) % size(key, 1) == 0 && dropout_p == 0",
    "stride(query, 3) == 1 && stride(key, 3) == 1 && stride(value, 3) == 1",
    "!given(attn_mask) || dims(attn_mask) == 2 || dims(attn_mask) == 4",
    *(
        f"!given(attn_mask) || size(attn_mask, {d}) == 1 || size(attn_mask, {d}) == {size}"
        for d, size in ((-1, "size(key, 2)"), (-2, "size(query, 2)"))
    ),
    *(
        f"!given(attn_mask) || dims(attn_mask) == 2 || size(attn_mask, {d}) == 1"
        f" || size(attn_mask, {d}) == size(query, {d})"
        for d in (0, 1)
    ),
]


# Those that multiply the gradient's rows by the result's.
DELTA_GROUPS = "group_lanes == 1 ? numel(logsumexp) : (numel(logsumexp) + rows - 1) // rows"


def rows_of_groups(tall: int) -> str:
    """Rows of a group's block: on a GPU each work item has `tall`, or 4 of large heads.

    There are 4 as well where blocks would be fewer than processors. Work items are arranged in
    kernels/layers/attention_tiles.cl, up to 16 beside each other.
    """
    high = "(group_lanes // (group_lanes >= 16 ? 16 : group_lanes >= 4 ? 4 : 1))"
    few = f"size(query, 0) * size(query, 1) * size(query, 2) < processors * {high} * {tall}"
    return f"group_lanes == 1 ? 64 : {high} * (size(query, 3) > 128 || {few} ? 4 : {tall})"


def _turned(operand: str) -> str:
    """Strides of a gradient that lies in memory as (batch, row, head, element), as CPU's do."""
    heads, rows, size = (f"size({operand}, {d})" for d in (1, 2, 3))
    return f"[{rows} * {heads} * {size}, {size}, {heads} * {size}, 1]"


def _blocks(rows: str) -> dict[str, str]:
    """Blocks of so many rows: of the queries, and of the keys."""
    return {
        "rows": rows,
        "blocks": "size(query, 0) * size(query, 1) * ((size(query, 2) + rows - 1) // rows)",
        "key_blocks": "size(key, 0) * size(key, 1) * ((size(key, 2) + rows - 1) // rows)",
    }


@dataclass(frozen=True)
class Kernels:
    """Kernels of the forward or of the backward.

    Args:
        source: their text.
        rows: expression: rows of a block.
        registers: expression: the most of a work-item.
        strided: operands that are read as they lie, beside those that always are.
        most_lanes: expression: the most work-items of a group.
    """

    source: str
    rows: str
    registers: str = ""
    strided: str = ""
    most_lanes: str = ""

    def constants(self) -> dict[str, str]:
        known = {"HEAD": "size(query, 3)", "CAUSAL": "is_causal", "ROWS": "rows"}
        return {**known, "OB_REGISTERS": self.registers} if self.registers else known


def _rows_for(
    dtypes: Iterable[torch.dtype],
    accumulated: str,
    conditions: Sequence[str],
    forward_kernels: Kernels,
    backward_kernels: Kernels,
) -> list[Row]:
    common: dict[str, Any] = {
        "numbers": NUMBERS,
        "reals": {"scale_value": "given(scale) ? scale : 0"},
        "conditions": conditions,
        "dtypes": dtypes,
        "vectors": True,
        "family": "attention",
    }
    forward = templated(
        "_scaled_dot_product_flash_attention_for_cpu",
        None,
        Launch("attend", "blocks", groups=True),
        source=forward_kernels.source,
        let=_blocks(forward_kernels.rows),
        constants=forward_kernels.constants(),
        operands="query key value attn_mask?",
        accepts={"attn_mask": MASKS},
        strided="query key value attn_mask out logsumexp",
        results=[
            Result("out", like="query"),
            Result(
                "logsumexp",
                sizes="sizes(query)[:3]",
                dtype=accumulated,
                strides="[size(query, 1) * size(query, 2), 1, size(query, 1)]",
            ),
        ],
        **common,
        most_lanes=forward_kernels.most_lanes,
    )
    backward = templated(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        None,
        [
            Launch("delta_of_rows", DELTA_GROUPS, groups=True),
            Launch("differentiate_keys", "key_blocks", groups=True),
            Launch("differentiate_queries", "blocks", groups=True),
        ],
        source=backward_kernels.source,
        let=_blocks(backward_kernels.rows),
        constants=backward_kernels.constants(),
        operands="query key value attn_mask? grad_out out logsumexp",
        accepts={"attn_mask": MASKS, "logsumexp": accumulated},
        strided="query key value attn_mask out logsumexp grad_query grad_key grad_value "
        + backward_kernels.strided,
        results=[
            Result(f"grad_{name}", sizes=f"sizes({name})", strides=_turned(name))
            for name in ("query", "key", "value")
        ],
        temporaries=[Result("delta", sizes="numel(logsumexp)", dtype=accumulated)],
        **{
            **common,
            "most_lanes": backward_kernels.most_lanes,
            "numbers": {**NUMBERS, "all_rows": "numel(logsumexp)"},
            "conditions": [
                *conditions,
                "sizes(grad_out) == sizes(query) && sizes(out) == sizes(query)",
                "sizes(logsumexp) == sizes(query)[:3]",
            ],
        },
    )
    return [forward, backward]


def _joined(*names: str) -> str:
    return "".join(map(template, names))


def _rows_by_items(double: bool) -> list[Row]:
    return _rows_for(
        FLOATS[3:] if double else FLOATS[:3],
        "float64" if double else "float32",
        CONDITIONS,
        Kernels(_joined("attention_tiles", "attention"), rows_of_groups(4 if double else 8)),
        Kernels(
            _joined("attention_tiles", "attention_delta", "attention_backward"), rows_of_groups(4)
        ),
    )


def _rows_by_matrix_units(dtype: torch.dtype) -> list[Row]:
    """For GPUs that multiply such elements: each warp of 32 work-items has 16 rows."""
    bfloat16 = dtype == torch.bfloat16
    head = (
        ("#define UNIT_BFLOAT16\n" if bfloat16 else "")
        + f'#define MATRIX_UNITS "{"bf16" if bfloat16 else "f16"}"\n#define UNIT_ITEMS OB_LOCAL\n'
        + _joined("matrix_units", "attention_tiles", "unit_attention_blocks")
    )
    rows = "group_lanes // 2"
    light = "size(query, 3) <= 64 && !given(attn_mask)"  # on registers
    few = "size(query, 0) * size(query, 1) * size(query, 2) < processors * 256"
    return _rows_for(
        (dtype,),
        "float32",
        [
            "matrix_units && group_lanes >= 64 && group_lanes % 32 == 0",
            f"size(query, 3) <= {LARGEST_UNIT_HEAD}",
            *CONDITIONS,
        ],
        # A multiprocessor's 65536 registers are those of two groups of 256 work-items, or of three
        # of 128. Small groups read keys more often. They spread few queries over more processors.
        Kernels(
            head + template("unit_attention"),
            rows,
            f"{light} ? 128 : 168",
            most_lanes=f"!({light}) || {few} ? 128 : 256",
        ),
        Kernels(
            "#define STRIDED_GRADIENT\n"
            + head
            + _joined("attention_delta", "unit_attention_backward"),
            rows,
            "size(query, 3) <= 64 ? 168 : 255",
            "grad_out",
            most_lanes="128",
        ),
    )


def rows() -> list[Row]:
    """Every row."""
    return [
        *_rows_by_matrix_units(torch.float16),
        *_rows_by_matrix_units(torch.bfloat16),
        *_rows_by_items(double=False),
        *_rows_by_items(double=True),
    ]
