"""Kernels of torch.nn.functional.scaled_dot_product_attention, which selects them by PyTorch's
rules for CPU (csrc/cpu_kernels/operators/attention.cpp)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch

from torch_outboard.ops.definition import FLOATS, WIDE, Definition
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
    return [
        *_by_matrix_units(torch.float16),
        *_by_matrix_units(torch.bfloat16),
        *_by_items(),
    ]


# ---- Blocks of rows, one per work-group


class _Block(NamedTuple):
    """A block of query rows or key rows, which a work-group processes at once."""

    rows: SymInt
    registers: SymInt | None = None  # the most registers of a work-item


# Arguments: plan, query, attn_mask. It may limit the work-items of a work-group and decline calls.
_BlockOf: TypeAlias = Callable[[Plan, SymTensor, SymTensor], _Block]


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


def _blocks(operand: SymTensor, block: _Block) -> SymInt:
    """The number of blocks in all heads of an operand."""
    return operand.size(0) * operand.size(1) * ceil_div(operand.size(2), block.rows)


def _whole_heads(plan: Plan, key: SymTensor) -> SymBool:
    """Whether one kernel computes all gradients, with a work-group for each head of keys.

    It saves 2 of 7 products. On CPUs, where the busiest core has at most 4/3 of its share of heads.
    """
    groups, cores = key.size(0) * key.size(1), plan.processors
    return plan.on_processor & (ceil_div(groups, cores) * cores * 3 <= groups * 4)


def _item_block(tall: Callable[[SymTensor], Int]) -> _BlockOf:
    return lambda plan, query, _: _Block(rows_of_groups(plan, query, tall(query)))


# The 65,536 registers of a compute unit hold two work-groups of 256 work-items, or three of 128.
# Small work-groups read keys more often, but spread few queries over more compute units.
def _unit_forward_block(plan: Plan, query: SymTensor, attn_mask: SymTensor) -> _Block:
    light = (query.size(3) <= 64) & ~given(attn_mask)  # needs few registers
    few = _row_count(query) < plan.processors * 256
    plan.limit_lanes(where(~light | few, 128, 256))
    return _unit_block(plan, query, where(light, 128, 168))


def _unit_backward_block(plan: Plan, query: SymTensor, _: SymTensor) -> _Block:
    plan.limit_lanes(128)
    return _unit_block(plan, query, where(query.size(3) <= 64, 168, 255))


def _unit_block(plan: Plan, query: SymTensor, registers: SymInt) -> _Block:
    """Each warp of 32 work-items has 16 rows."""
    lanes = plan.group_lanes
    plan.require(
        plan.matrix_units & (lanes >= 64) & (lanes % 32 == 0), query.size(3) <= LARGEST_UNIT_HEAD
    )
    return _Block(lanes // 2, registers)


# ---- Kernels


class _Kernels(NamedTuple):
    """Kernels of the forward or the backward pass.

    Attributes:
        files: names of the source files.
        block: chooses the blocks of a call.
        head: source in front of the files.
        strided: further operands that are read by their strides, without a contiguous copy.
    """

    files: str
    block: _BlockOf
    head: str = ""
    strided: tuple[str, ...] = ()


def _by_items() -> list[Definition]:
    def tall(query: SymTensor) -> SymInt:
        return where(query.element_size() == 8, 4, 8)

    backward = "attention_tiles attention"
    return [
        _forward(FLOATS, _Kernels("attention_tiles attention", _item_block(tall))),
        _backward(FLOATS, _Kernels(backward, _item_block(lambda _: 4))),
    ]


def _by_matrix_units(dtype: torch.dtype) -> list[Definition]:
    """Definitions for GPUs with matrix units for the dtype."""
    bfloat16 = dtype == torch.bfloat16
    head = (
        "#define UNIT_BFLOAT16\n" if bfloat16 else ""
    ) + f'#define MATRIX_UNITS "{"bf16" if bfloat16 else "f16"}"\n#define UNIT_ITEMS OB_LOCAL\n'
    files = "matrix_units attention_tiles"
    forward = _Kernels(f"{files} unit_attention", _unit_forward_block, head)
    backward = _Kernels(
        f"{files} unit_attention",
        _unit_backward_block,
        f"#define STRIDED_GRADIENT\n{head}",
        ("grad_out",),
    )
    return [
        _forward((dtype,), forward),
        _backward((dtype,), backward),
    ]


# ---- Definitions


def _forward(dtypes: Sequence[torch.dtype], kernels: _Kernels) -> Definition:
    @template(
        "_scaled_dot_product_flash_attention_for_cpu",
        kernels.files,
        source=kernels.head,
        dtypes=dtypes,
        accepts={"attn_mask": _MASKS},
        strided=("query", "key", "value", "attn_mask", "out", "logsumexp", *kernels.strided),
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
        block = kernels.block(plan, query, attn_mask)
        _require_heads(plan, query, key, value, dropout_p)
        _require_mask(plan, query, key, attn_mask)
        plan.result("out", like=query)
        heads, queries = query.size(1), query.size(2)
        strides = ints((heads * queries, 1, heads))
        plan.result("logsumexp", query.shape[:3], "value", strides=strides)
        _pass_values(plan, query, key, scale, is_causal, block)
        _pass_mask(plan, attn_mask)
        plan.launch("attend", groups=_blocks(query, block))

    return attention


def _backward(dtypes: Sequence[torch.dtype], kernels: _Kernels) -> Definition:
    gradients = ("grad_query", "grad_key", "grad_value")
    read = ("query", "key", "value", "attn_mask", "out", "logsumexp")

    @template(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        kernels.files,
        source=kernels.head,
        dtypes=dtypes,
        accepts={"attn_mask": _MASKS, "logsumexp": WIDE},
        strided=(*read, *gradients, *kernels.strided),
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
        block = kernels.block(plan, query, attn_mask)
        _require_heads(plan, query, key, value, dropout_p)
        _require_mask(plan, query, key, attn_mask)
        plan.require(
            (grad_out.shape == query.shape) & (out.shape == query.shape),
            logsumexp.shape == query.shape[:3],
            # Sums of half precision are in float32.
            logsumexp.element_size() == where(query.element_size() == 8, 8, 4),
        )
        for name, operand in zip(gradients, (query, key, value), strict=True):
            plan.result(name, operand.shape, strides=_turned(operand))
        plan.temporary("delta", logsumexp.numel(), "value")
        _pass_values(plan, query, key, scale, is_causal, block)
        _pass_mask(plan, attn_mask)
        whole = _whole_heads(plan, key)
        plan.temporary("query_sums", where(whole, query.numel(), 0), "value")
        plan.parameters(all_rows=logsumexp.numel(), whole_heads=whole)
        plan.launch("delta_of_rows", groups=delta_groups(plan, logsumexp, block.rows))
        key_groups = where(whole, key.size(0) * key.size(1), _blocks(key, block))
        plan.launch("differentiate_keys", groups=key_groups)
        plan.launch("differentiate_queries", groups=_blocks(query, block), when=~whole)

    return attention_backward


def _require_heads(
    plan: Plan, query: SymTensor, key: SymTensor, value: SymTensor, dropout_p: SymFloat
) -> None:
    plan.require(
        (query.dim() == 4) & (key.dim() == 4) & (value.dim() == 4),
        (query.numel() > 0) & (key.numel() > 0),
        (query.size(3) == key.size(3)) & (query.size(3) <= LARGEST_HEAD),
        (key.shape == value.shape) & (query.size(0) == key.size(0)),
        (query.size(1) % key.size(1) == 0) & (dropout_p == 0),
        (query.stride(3) == 1) & (key.stride(3) == 1) & (value.stride(3) == 1),
    )


def _require_mask(plan: Plan, query: SymTensor, key: SymTensor, mask: SymTensor) -> None:
    """Requires a mask of two or four dimensions with sizes that broadcast."""

    def repeats(dim: int, size: SymInt) -> SymBool:
        return (mask.size(dim) == 1) | (mask.size(dim) == size)

    fits_heads = repeats(0, query.size(0)) & repeats(1, query.size(1))
    plan.require(
        where(given(mask), (mask.dim() == 2) | (mask.dim() == 4), True),
        where(given(mask), repeats(-1, key.size(2)) & repeats(-2, query.size(2)), True),
        where(given(mask), (mask.dim() == 2) | fits_heads, True),
    )


def _pass_values(
    plan: Plan, query: SymTensor, key: SymTensor, scale: SymFloat, is_causal: SymBool, block: _Block
) -> None:
    plan.parameters(
        heads=query.size(1),
        shared=query.size(1) // key.size(1),
        queries=query.size(2),
        keys=key.size(2),
        has_scale=given(scale),
        scale_value=either(scale, 0),
    )
    plan.constants(HEAD=query.size(3), CAUSAL=is_causal, ROWS=block.rows)
    if block.registers is not None:
        plan.constants(OB_REGISTERS=block.registers)


def _pass_mask(plan: Plan, mask: SymTensor) -> None:
    plan.parameters(
        mask_boolean=given(mask) & (mask.element_size() == 1),
        mask_batch=_mask_stride(mask, -4),
        mask_head=_mask_stride(mask, -3),
        mask_query=_mask_stride(mask, -2),
        mask_key=_mask_stride(mask, -1),
    )


def _mask_stride(mask: SymTensor, dim: int) -> SymInt:
    """The stride of a mask of two or four dimensions; 0 for a size of one, which broadcasts."""
    stride = where(mask.size(dim) == 1, 0, mask.stride(dim))
    there = given(mask) if dim >= -2 else given(mask) & (mask.dim() == 4)
    return where(there, stride, 0)


def _turned(operand: SymTensor) -> SymInts:
    """Strides of a gradient with the memory order (batch, row, head, element), as on CPU."""
    heads, rows, size = (operand.size(dim) for dim in (1, 2, 3))
    return ints((rows * heads * size, size, heads * size, 1))
