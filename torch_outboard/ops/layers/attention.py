"""Kernels of torch.nn.functional.scaled_dot_product_attention, which selects them by PyTorch's
rules for CPU (csrc/cpu_kernels/operators/attention.cpp)."""

from collections.abc import Sequence

import torch

from torch_outboard.ops.definition import FLOATS, HALVES, WIDE, Definition
from torch_outboard.ops.symbolic import (
    Int,
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymTensor,
    ceil_div,
    either,
    given,
    ints,
    where,
)
from torch_outboard.ops.template import Plan, template

# Largest size of a head, a constant of the program: private memory holds blocks of such rows.
LARGEST_HEAD = 256
# Largest size of a head with matrix units: registers hold a warp's 16 rows.
LARGEST_UNIT_HEAD = 128

_MASKS = (*FLOATS, torch.bool)


def definitions() -> list[Definition]:
    """Every operator definition."""
    halves = [((dtype,), _unit_macros(dtype)) for dtype in HALVES]
    return [
        define(dtypes, units)
        for dtypes, units in (*halves, (FLOATS, ""))
        for define in (_forward, _backward)
    ]


def _unit_macros(dtype: torch.dtype) -> str:
    """Macros of unit_attention.cl, for GPUs with matrix units for the dtype."""
    name = {torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    source = f'#define MATRIX_UNITS "{name}"\n#define UNIT_ITEMS OB_LOCAL\n'
    source += "#define STRIDED_GRADIENT\n"
    return source + ("#define UNIT_BFLOAT16\n" if dtype == torch.bfloat16 else "")


def _kernels_of(units: str) -> str:
    if units:
        return "matrix_units attention_tiles unit_attention"
    return "attention_tiles attention"


# ---- Blocks of query rows or key rows, one per work-group


def rows_of_groups(plan: Plan, query: SymTensor, tall: Int) -> SymInt:
    """Rows of a work-group's block: on a GPU each work-item has `tall`, or 4 for large heads.

    It also has 4 where blocks of `tall` would be fewer than compute units.
    attention_tiles.cl arranges work-items in rows of up to 16.
    """
    lanes = plan.group_lanes
    high = lanes // where(lanes >= 16, 16, where(lanes >= 4, 4, 1))
    few = _row_count(query) < plan.processors * high * tall
    return where(plan.on_processor, 64, high * where((query.size(3) > 128) | few, 4, tall))


def delta_groups(plan: Plan, logsumexp: SymTensor, rows: SymInt) -> SymInt:
    """Work-groups of the kernel that multiplies rows of the gradient by rows of the result."""
    count = logsumexp.numel()
    return where(plan.on_processor, count, ceil_div(count, rows))


def _row_count(query: SymTensor) -> SymInt:
    return query.size(0) * query.size(1) * query.size(2)


def _blocks(operand: SymTensor, rows: SymInt) -> SymInt:
    """The number of blocks in all heads of an operand."""
    return operand.size(0) * operand.size(1) * ceil_div(operand.size(2), rows)


def _whole_heads(plan: Plan, key: SymTensor) -> SymBool:
    """Whether one kernel computes all gradients, with a work-group for each head of keys.

    It saves 2 of 7 products. On CPUs, where the busiest core has at most 4/3 of its share of heads.
    """
    groups, cores = key.size(0) * key.size(1), plan.processors
    return plan.on_processor & (ceil_div(groups, cores) * cores * 3 <= groups * 4)


def _rows_of_block(
    plan: Plan, query: SymTensor, attn_mask: SymTensor, *, units: bool, backward: bool
) -> SymInt:
    """Rows of a block. With matrix units it declines calls, and each warp has 16 rows."""
    if not units:
        double = query.element_size() == 8
        return rows_of_groups(plan, query, 4 if backward else where(double, 4, 8))
    # The 65,536 registers of a compute unit hold two work-groups of 256 work-items, or three of
    # 128. Small work-groups read keys more often, but spread few queries over more compute units.
    small = query.size(3) <= 64
    light = small & ~given(attn_mask)  # needs few registers
    few = _row_count(query) < plan.processors * 256
    plan.limit_lanes(128 if backward else where(~light | few, 128, 256))
    registers = where(small, 168, 255) if backward else where(light, 128, 168)
    plan.constants(OB_REGISTERS=registers)
    lanes = plan.group_lanes
    plan.require(
        plan.matrix_units & (lanes >= 64) & (lanes % 32 == 0), query.size(3) <= LARGEST_UNIT_HEAD
    )
    return lanes // 2


# ---- Definitions


def _forward(dtypes: Sequence[torch.dtype], units: str) -> Definition:
    @template(
        "_scaled_dot_product_flash_attention_for_cpu",
        _kernels_of(units),
        source=units,
        dtypes=dtypes,
        accepts={"attn_mask": _MASKS},
        strided=("query", "key", "value", "attn_mask", "out", "logsumexp"),
        vectors=True,
    )
    def attention(
        plan: Plan,
        query: SymTensor,
        key: SymTensor,
        value: SymTensor,
        attn_mask: SymTensor,
        dropout_p: SymFloat,
        is_causal: SymBool,
        scale: SymFloat,
    ) -> None:
        block = _rows_of_block(plan, query, attn_mask, units=bool(units), backward=False)
        _take_operands(plan, query, key, value, attn_mask, dropout_p)
        _pass_values(plan, query, key, scale, is_causal, block)
        plan.result("out", like=query)
        heads, queries = query.size(1), query.size(2)
        strides = ints((heads * queries, 1, heads))
        plan.result("logsumexp", query.shape[:3], "value", strides=strides)
        plan.launch("attend", groups=_blocks(query, block))

    return attention


def _backward(dtypes: Sequence[torch.dtype], units: str) -> Definition:
    gradients = ("grad_query", "grad_key", "grad_value")
    read = ("query", "key", "value", "attn_mask", "out", "logsumexp")

    @template(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        _kernels_of(units),
        source=units,
        dtypes=dtypes,
        accepts={"attn_mask": _MASKS, "logsumexp": WIDE},
        strided=(*read, *gradients, *(["grad_out"] if units else [])),
        vectors=True,
    )
    def attention_backward(
        plan: Plan,
        query: SymTensor,
        key: SymTensor,
        value: SymTensor,
        attn_mask: SymTensor,
        grad_out: SymTensor,
        out: SymTensor,
        logsumexp: SymTensor,
        dropout_p: SymFloat,
        is_causal: SymBool,
        scale: SymFloat,
    ) -> None:
        block = _rows_of_block(plan, query, attn_mask, units=bool(units), backward=True)
        _take_operands(plan, query, key, value, attn_mask, dropout_p)
        _pass_values(plan, query, key, scale, is_causal, block)
        plan.require(
            (grad_out.shape == query.shape) & (out.shape == query.shape),
            logsumexp.shape == query.shape[:3],
            # Sums of half precision are in float32.
            logsumexp.element_size() == where(query.element_size() == 8, 8, 4),
        )
        for name, operand in zip(gradients, (query, key, value), strict=True):
            plan.result(name, operand.shape, strides=_turned(operand))
        plan.temporary("delta", logsumexp.numel(), "value")
        whole = _whole_heads(plan, key)
        plan.temporary("query_sums", where(whole, query.numel(), 0), "value")
        plan.parameters(all_rows=logsumexp.numel(), whole_heads=whole)
        plan.launch("delta_of_rows", groups=delta_groups(plan, logsumexp, block))
        key_groups = where(whole, key.size(0) * key.size(1), _blocks(key, block))
        plan.launch("differentiate_keys", groups=key_groups)
        plan.launch("differentiate_queries", groups=_blocks(query, block), when=~whole)

    return attention_backward


def _take_operands(
    plan: Plan,
    query: SymTensor,
    key: SymTensor,
    value: SymTensor,
    mask: SymTensor,
    dropout_p: SymFloat,
) -> None:
    """Requires heads that fit, and a mask of two or four dimensions with sizes that broadcast."""

    def repeats(dim: int, size: SymInt) -> SymBool:
        return (mask.size(dim) == 1) | (mask.size(dim) == size)

    fits_heads = repeats(0, query.size(0)) & repeats(1, query.size(1))
    plan.require(
        (query.dim() == 4) & (key.dim() == 4) & (value.dim() == 4),
        (query.numel() > 0) & (key.numel() > 0),
        (query.size(3) == key.size(3)) & (query.size(3) <= LARGEST_HEAD),
        (key.shape == value.shape) & (query.size(0) == key.size(0)),
        (query.size(1) % key.size(1) == 0) & (dropout_p == 0),
        (query.stride(3) == 1) & (key.stride(3) == 1) & (value.stride(3) == 1),
        where(given(mask), (mask.dim() == 2) | (mask.dim() == 4), True),
        where(given(mask), repeats(-1, key.size(2)) & repeats(-2, query.size(2)), True),
        where(given(mask), (mask.dim() == 2) | fits_heads, True),
    )
    plan.parameters(
        mask_boolean=given(mask) & (mask.element_size() == 1),
        mask_batch=_mask_stride(mask, -4),
        mask_head=_mask_stride(mask, -3),
        mask_query=_mask_stride(mask, -2),
        mask_key=_mask_stride(mask, -1),
    )


def _pass_values(
    plan: Plan, query: SymTensor, key: SymTensor, scale: SymFloat, is_causal: SymBool, rows: SymInt
) -> None:
    plan.parameters(
        heads=query.size(1),
        shared=query.size(1) // key.size(1),
        queries=query.size(2),
        keys=key.size(2),
        has_scale=given(scale),
        scale_value=either(scale, 0),
    )
    plan.constants(HEAD=query.size(3), CAUSAL=is_causal, ROWS=rows)


def _mask_stride(mask: SymTensor, dim: int) -> SymInt:
    """The stride of a mask of two or four dimensions; 0 for a size of one, which broadcasts."""
    stride = where(mask.size(dim) == 1, 0, mask.stride(dim))
    there = given(mask) if dim >= -2 else given(mask) & (mask.dim() == 4)
    return where(there, stride, 0)


def _turned(operand: SymTensor) -> SymInts:
    """Strides of a gradient with the memory order (batch, row, head, element), as on CPU."""
    heads, rows, size = (operand.size(dim) for dim in (1, 2, 3))
    return ints((rows * heads * size, size, heads * size, 1))
