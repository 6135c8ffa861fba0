"""Normalization of rows, channels, groups of channels and weights, and their gradients.

Weights and statistics have the dtype of the input, or are float32 for a float16 or bfloat16 input.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, HALVES, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymList,
    SymTensor,
    as_flag,
    as_tensor,
    ceil_div,
    expand,
    fits,
    given,
    has_dtype,
    maximum,
    minimum,
    same_dtype,
    where,
)
from torch_outboard.ops.template import Body, Plan, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    running = ("running_mean", "running_var")
    legit, updating = "_native_batch_norm_legit", "_batch_norm_with_update"
    saved = ("save_mean", "save_invstd")
    return [
        _layer_norm,
        _layer_norm_backward,
        _batch_norm(f"native_batch_norm {legit}", running),
        _batch_norm(f"native_batch_norm.out {legit}.out", running, saved=saved),
        _batch_norm(f"{legit}.no_stats", ()),
        _batch_norm(f"{legit}.no_stats_out", (), saved=saved),
        _batch_norm(f"{legit}_no_training", running, training=False),
        _batch_norm(f"{legit}_no_training.out", running, training=False, saved=("out1", "out2")),
        _batch_norm(f"{updating} {updating}.out", running, training=True, reserves=True),
        _batch_norm_backward(
            "native_batch_norm_backward native_batch_norm_backward.out", "save_invstd", "train"
        ),
        _batch_norm_backward("batch_norm_backward", "save_var", "update"),
        _group_norm,
        _group_norm_backward,
        decomposition("_weight_norm_interface", _weight_norm, dtypes=FLOATS),
        decomposition(
            "_weight_norm_interface_backward",
            _weight_norm_backward,
            dtypes=(torch.bfloat16, torch.float32, torch.float64),
        ),
    ]


def _define(
    overloads: str, kernels: str, *statistics: str, shapes_only: Sequence[str] = ()
) -> Callable[[Body], Definition]:
    """A template; `statistics`: the weights and statistics among its operands."""
    return template(
        overloads,
        f"rows {kernels}",
        dtypes=FLOATS,
        shapes_only=shapes_only,
        accepts=dict.fromkeys(statistics, FLOATS),
        vectors=True,
    )


def _statistics(plan: Plan, input: SymTensor, *given_ones: SymTensor) -> SymTensor:
    """A tensor with the dtype of weights and statistics: a given one, or else `input`."""
    model = input
    for tensor in given_ones:
        model = where(given(tensor), tensor, model)
    plan.require(
        *(same_dtype(tensor, model) for tensor in given_ones),
        same_dtype(model, input) | (has_dtype(model, torch.float32) & has_dtype(input, *HALVES)),
    )
    return model


class _Rows(NamedTuple):
    """The rows of an input, which layer_norm normalizes."""

    shape: SymInts  # before the normalized dimensions
    total: SymInt
    length: SymInt


def _rows_of(
    plan: Plan, input: SymTensor, normalized_shape: SymInts, weight: SymTensor, bias: SymTensor
) -> _Rows:
    axis = input.dim() - normalized_shape.len()
    rows = _Rows(input.shape[:axis], input.shape[:axis].prod(), normalized_shape.prod())
    plan.require(
        (normalized_shape.len() > 0) & (axis >= 0),
        rows.length > 0,
        input.shape[axis:] == normalized_shape,
        fits(weight, normalized_shape),
        fits(bias, normalized_shape),
    )
    return rows


@_define("native_layer_norm native_layer_norm.out", "layer_norm", "weight", "bias")
def _layer_norm(
    plan: Plan,
    input: SymTensor,
    normalized_shape: SymInts,
    weight: SymTensor,
    bias: SymTensor,
    eps: SymFloat,
) -> None:
    rows = _rows_of(plan, input, normalized_shape, weight, bias)
    statistics = _statistics(plan, input, weight, bias)
    plan.result("out")
    for name in ("mean", "rstd"):
        shape = rows.shape + expand(1, normalized_shape.len())
        plan.result(name, shape, statistics)
    plan.parameters(n=rows.length, eps=eps)
    plan.launch("layer_norm", groups=rows.total)


@_define(
    "native_layer_norm_backward native_layer_norm_backward.out",
    "layer_norm",
    "mean",
    "rstd",
    "weight",
    "bias",
)
def _layer_norm_backward(
    plan: Plan,
    grad_out: SymTensor,
    input: SymTensor,
    normalized_shape: SymInts,
    mean: SymTensor,
    rstd: SymTensor,
    weight: SymTensor,
    bias: SymTensor,
    output_mask: SymList[SymBool],
) -> None:
    rows = _rows_of(plan, input, normalized_shape, weight, bias)
    plan.require(
        grad_out.shape == input.shape,
        (mean.numel() == rows.total) & (rstd.numel() == rows.total),
    )
    statistics = _statistics(plan, input, mean, rstd, weight, bias)
    n, cpu, lanes = rows.length, plan.on_processor, plan.group_lanes
    # On a GPU a work-group takes `tile` columns, or several slices of narrow rows.
    tile = where(cpu, n, 4 * lanes)
    tiles = ceil_div(n, tile)
    slices = where(cpu, 1, maximum(minimum(tile // n, lanes), 1))
    wanted = where(cpu, 64, maximum(8 * plan.processors // tiles, 1))
    chunk_rows = maximum(ceil_div(rows.total, wanted), where(cpu, 1, 16 * slices))
    chunks = ceil_div(rows.total, chunk_rows)
    columns = output_mask[1] | output_mask[2]

    plan.result("grad_input", input.shape, wanted=output_mask[0])
    for k, name in ((1, "grad_weight"), (2, "grad_bias")):
        plan.result(name, normalized_shape, statistics, wanted=output_mask[k])
    for name in ("weight_parts", "bias_parts"):
        size = where(columns, maximum(chunks * slices * n, 1), 1)
        plan.temporary(name, size, "value")
    plan.parameters(
        n=n,
        row_count=rows.total,
        chunks=where((lanes > 1) & ~columns, 0, chunks),
        chunk_rows=chunk_rows,
        tile=tile,
        tiles=tiles,
        slices=slices,
    )
    of_columns = where(columns, chunks * tiles, 0)
    of_rows = where(output_mask[0], rows.total, 0)
    plan.launch("layer_norm_backward", groups=where(cpu, chunks, of_columns + of_rows))
    each = minimum(lanes, 32)
    items = where(cpu, n, ceil_div(n, each) * lanes)
    plan.launch("layer_norm_columns", items, when=columns)


class _Channels(NamedTuple):
    """The blocks of channels of an input, and their division among work-groups of a GPU."""

    channels: SymInt
    blocks: SymInt
    n: SymInt  # elements of a channel in a block
    parts: SymInt  # of each channel: a compute unit of a GPU has room for several work-groups


def _channels_of(plan: Plan, input: SymTensor, *per_channel: SymTensor) -> _Channels:
    channels, blocks, n = input.size(1), input.size(0), input.shape[2:].prod()
    plan.require(
        (input.dim() >= 2) & (input.numel() > 0),
        *(fits(tensor, [channels]) for tensor in per_channel),
    )
    room = ceil_div(8 * plan.processors, channels)
    parts = minimum(blocks * n // (16 * plan.group_lanes), room)
    return _Channels(channels, blocks, n, where(plan.on_processor, 1, maximum(1, parts)))


def _pass_channels(plan: Plan, of: _Channels, temporaries: Sequence[str]) -> SymBool:
    """Passes sizes and temporaries; returns whether channels are divided into parts."""
    in_parts = of.parts > 1
    plan.parameters(n=of.n, blocks=of.blocks, channels=of.channels, parts=of.parts)
    plan.constants(IN_PARTS=in_parts)
    for name in temporaries:
        plan.temporary(name, where(in_parts, of.channels * of.parts, 1), "value")
    return in_parts


def _batch_norm(
    overloads: str,
    statistics: Sequence[str],
    training: bool | None = None,  # None: the argument `training` decides
    saved: Sequence[str] = (),
    reserves: bool = False,
) -> Definition:
    @_define(
        overloads,
        "batch_norm",
        "weight",
        "bias",
        *statistics,
        shapes_only=saved,
    )
    def batch_norm(
        plan: Plan,
        input: SymTensor,
        weight: SymTensor,
        bias: SymTensor,
        momentum: SymFloat,
        eps: SymFloat,
        **rest: Symbol,
    ) -> None:
        trains = as_flag(rest["training"] if training is None else training)
        running = [plan.operand(name, rest[name]) for name in statistics]
        of = _channels_of(plan, input, weight, bias, *running)
        if running:
            plan.require(trains | (given(running[0]) & given(running[1])))
        else:
            plan.require(trains)
        for tensor in running:
            # Kernels write running statistics in place, so no copy can replace them.
            dense = (tensor.size(0) == 1) | (tensor.stride(0) == 1)
            plan.require(where(given(tensor), dense, True))
        statistics_dtype = _statistics(plan, input, weight, bias, *running)

        plan.result("out", memory_format=input)
        for slot, name in enumerate(("mean", "rstd")):
            # Without training nothing is saved, and the given outputs stay unchanged.
            as_given = as_tensor(rest[saved[slot]]).shape if saved else [0]
            shape = where(trains, [of.channels], as_given)
            plan.result(name, shape, statistics_dtype)
        if reserves:
            plan.result("reserved", [0], torch.uint8)
        in_parts = _pass_channels(plan, of, ("averages", "variations"))
        plan.parameters(momentum=momentum, eps=eps)
        # For bfloat16 CPU rounds the mean and the sum of squares before it uses them.
        plan.constants(TRAINING=trains, ROUNDED=has_dtype(input, torch.bfloat16))
        parts = of.channels * of.parts
        plan.launch("batch_norm_parts", groups=parts, when=trains & in_parts)
        plan.launch("batch_norm_statistics", groups=of.channels, when=trains & in_parts)
        plan.launch("batch_norm", groups=parts)

    return batch_norm


def _batch_norm_backward(overloads: str, inverse: str, training: str) -> Definition:
    """`inverse`, `training`: arguments with the saved inverse deviation, and with the mode."""

    @_define(
        overloads,
        "batch_norm",
        "weight",
        "running_mean",
        "running_var",
        "save_mean",
        inverse,
    )
    def backward(
        plan: Plan,
        grad_out: SymTensor,
        input: SymTensor,
        weight: SymTensor,
        running_mean: SymTensor,
        running_var: SymTensor,
        save_mean: SymTensor,
        eps: SymFloat,
        output_mask: SymList[SymBool],
        **rest: Any,
    ) -> None:
        saved = plan.operand(inverse, rest[inverse])
        train = rest[training]
        of = _channels_of(plan, input, weight, running_mean, running_var)
        plan.require(
            grad_out.shape == input.shape,
            where(train, given(save_mean) & given(saved), given(running_mean) & given(running_var)),
            where(train, save_mean.shape + saved.shape == [of.channels, of.channels], True),
        )
        statistics = _statistics(plan, input, weight, running_mean, running_var, save_mean, saved)
        _gradients(plan, input, [of.channels], statistics, output_mask)
        in_parts = _pass_channels(plan, of, ("totals", "products"))
        plan.parameters(eps=eps)
        plan.constants(TRAINING=train)
        parts = of.channels * of.parts
        plan.launch("batch_norm_backward_parts", groups=parts, when=in_parts)
        plan.launch("batch_norm_backward", groups=parts)

    return backward


def _gradients(
    plan: Plan,
    input: SymTensor,
    channels: list[SymInt],
    statistics: SymTensor,
    output_mask: SymList[SymBool],
) -> None:
    """Makes the gradients of an input, and of its channels' weights and biases."""
    plan.result("grad_input", input.shape, memory_format=input, wanted=output_mask[0])
    plan.result("grad_weight", channels, statistics, wanted=output_mask[1])
    plan.result("grad_bias", channels, statistics, wanted=output_mask[2])


def _require_groups(
    plan: Plan, input: SymTensor, N: SymInt, C: SymInt, HxW: SymInt, group: SymInt
) -> None:
    plan.require(
        (group > 0) & (N >= 0) & (C > 0) & (HxW > 0), C % group == 0, input.numel() == N * C * HxW
    )


@_define("native_group_norm native_group_norm.out", "group_norm", "weight", "bias")
def _group_norm(
    plan: Plan,
    input: SymTensor,
    weight: SymTensor,
    bias: SymTensor,
    N: SymInt,
    C: SymInt,
    HxW: SymInt,
    group: SymInt,
    eps: SymFloat,
) -> None:
    _require_groups(plan, input, N, C, HxW, group)
    plan.require(fits(weight, [C]), fits(bias, [C]))
    statistics = _statistics(plan, input, weight, bias)
    plan.result("out", memory_format=input)
    for name in ("mean", "rstd"):
        plan.result(name, [N, group], statistics)
    plan.parameters(n=HxW, blocks=C // group, groups=group, eps=eps)
    plan.launch("group_norm", groups=N * group)


@_define(
    "native_group_norm_backward native_group_norm_backward.out",
    "group_norm",
    "mean",
    "rstd",
    "weight",
)
def _group_norm_backward(
    plan: Plan,
    grad_out: SymTensor,
    input: SymTensor,
    mean: SymTensor,
    rstd: SymTensor,
    weight: SymTensor,
    N: SymInt,
    C: SymInt,
    HxW: SymInt,
    group: SymInt,
    output_mask: SymList[SymBool],
) -> None:
    _require_groups(plan, input, N, C, HxW, group)
    plan.require(
        grad_out.shape == input.shape,
        (mean.shape == [N, group]) & (rstd.shape == [N, group]),
        fits(weight, [C]),
    )
    _gradients(plan, input, [C], _statistics(plan, input, mean, rstd, weight), output_mask)
    for name in ("totals", "products"):
        plan.temporary(name, N * C, "value")
    plan.parameters(n=HxW, blocks=C // group, channels=C, batch=N)
    plan.launch("group_norm_sums", groups=N * C)
    plan.launch("group_norm_input", groups=N * C, when=output_mask[0])
    plan.launch("group_norm_channels", C, when=output_mask[1] | output_mask[2])


# ---- Weights from direction and length per slice (torch.nn.utils.weight_norm)


def _other_dims(x: Tensor, dim: int) -> list[int]:
    # All dimensions except the first or the last one.
    first = 1 if dim == 0 else 0
    return [first + d for d in range(x.dim() - 1)]


def _require_slices(v: Tensor, dim: int, *lengths: Tensor) -> None:
    require(v.dim() > 1 and dim in (0, v.dim() - 1) and v.numel() > 0)
    for x in lengths:
        require(x.dim() == v.dim() and x.numel() == x.size(dim) == v.size(dim))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _weight_norm(v: Tensor, g: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    _require_slices(v, dim, g)
    require(v.dtype == g.dtype)
    norm = torch.linalg.vector_norm(v, 2, _other_dims(v, dim), True, dtype=_wide(v.dtype))
    return (v * (g / norm)).to(v.dtype), norm


def _weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    wide = _wide(saved_v.dtype)
    _require_slices(saved_v, dim, saved_g, saved_norms)
    require(grad_w.shape == saved_v.shape)
    require(grad_w.dtype == saved_v.dtype == saved_g.dtype and saved_norms.dtype == wide)
    v = saved_v.to(wide)
    grad = grad_w.to(wide)
    along = (grad * v).sum(_other_dims(v, dim), True) / saved_norms
    grad_v = (grad - v * (along / saved_norms)) * (saved_g / saved_norms)
    return grad_v.to(saved_v.dtype), along.to(saved_g.dtype)
