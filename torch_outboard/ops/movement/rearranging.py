"""Operators that move elements to other places, by rules and not by index tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import BOOL, COMPLEX, EVERY, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
FAMILY: dict[str, Any] = {"family": "movement"}


def remapped() -> list[Row]:
    """roll and flip."""
    common: dict[str, Any] = {
        "dtypes": EVERY,
        "items_of": "self out",
        "strided": "self out",
        **FAMILY,
    }
    return [
        composed(
            "roll",
            lambda self, shifts: torch.roll(self.reshape(-1), shifts, [0]).reshape(self.shape),
            conditions=["len(dims) == 0", "len(shifts) == 1"],
            **FAMILY,
        ),
        templated(
            "roll",
            "remap",
            Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
            conditions=[
                "len(dims) > 0",
                "len(dims) == len(shifts)",
                "len(dims) <= 16",
                "min(min_of(dims) + dims(self), dims(self) - 1 - max_of(dims)) >= 0",
            ],
            numbers={"count": "len(dims)"},
            lists={"amounts": "shifts", "along": "dims"},
            constants={"MODE": "3"},
            **common,
        ),
        templated(
            "flip",
            "remap",
            Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
            results=Result("out", "sizes(self)", like="self"),
            conditions=[
                "len(dims) <= 16",
            ],
            requires={"dims": "distinct in self"},
            numbers={"count": "len(dims)"},
            lists={"amounts": "fill(1, len(dims))", "along": "dims"},
            constants={"MODE": "4"},
            **common,
        ),
    ]


def triangles() -> list[Row]:
    """Triangular parts of matrices."""
    return [
        templated(
            f"{name} {name}.out {name}_",
            "triangle",
            Launch("triangle", "numel(self) // max(size(self, -1), 1)", groups=True),
            dtypes=EVERY,
            meta=f"aten::{name}",
            numbers={
                "diagonal": "diagonal",
                "rows": "size(self, -2)",
                "columns": "size(self, -1)",
            },
            constants={"UPPER": upper},
            items_of="self out",
            strided="self out",
            **FAMILY,
        )
        for name, upper in (("tril", "0"), ("triu", "1"))
    ]


def windows() -> list[Row]:
    """unfold and fold of images, and the gradient of sliding windows."""
    common: dict[str, Any] = {
        "dtypes": (*FLOATS, *COMPLEX),
        "conditions": [
            "len(kernel_size) == 2 && len(dilation) == 2 && len(padding) == 2 && len(stride) == 2",
            "kernel_size[0] > 0 && kernel_size[1] > 0 && stride[0] > 0 && stride[1] > 0",
            "dilation[0] > 0 && dilation[1] > 0 && padding[0] >= 0 && padding[1] >= 0",
            "rows > 0 && columns > 0",
        ],
        "numbers": {
            "height": "height",
            "width": "width",
            "rows": "rows",
            "columns": "columns",
            "kernel_height": "kernel_size[0]",
            "kernel_width": "kernel_size[1]",
            "stride_y": "stride[0]",
            "stride_x": "stride[1]",
            "padding_y": "padding[0]",
            "padding_x": "padding[1]",
            "dilation_y": "dilation[0]",
            "dilation_x": "dilation[1]",
        },
        **FAMILY,
    }
    blocks = {
        name: f"({size} + 2 * padding[{k}] - dilation[{k}] * (kernel_size[{k}] - 1) - 1)"
        f" // stride[{k}] + 1"
        for k, (name, size) in enumerate((("rows", "height"), ("columns", "width")))
    }
    of_input = {"height": "size(self, -2)", "width": "size(self, -1)", **blocks}
    of_output = {
        "height": "output_size[0]",
        "width": "output_size[1]",
        **blocks,
        "kernel": "kernel_size[0] * kernel_size[1]",
    }
    return [
        templated(
            "im2col im2col.out",
            "im2col",
            Launch("im2col", "numel(out)"),
            let=of_input,
            results=Result(
                "out",
                "sizes(self)[0:-3] + [size(self, -3) * kernel_size[0] * kernel_size[1], "
                "rows * columns]",
            ),
            **common
            | {
                "dtypes": (*FLOATS, *COMPLEX, *BOOL),
                "conditions": [
                    "dims(self) == 3 || dims(self) == 4",
                    "prod(sizes(self)[-3:]) > 0",
                    *common["conditions"],
                ],
            },
        ),
        templated(
            "col2im col2im.out",
            "col2im",
            Launch("col2im", "numel(out)"),
            let=of_output,
            results=Result("out", "sizes(self)[0:-2] + [size(self, -2) // kernel, height, width]"),
            **common
            | {
                "conditions": [
                    "dims(self) == 2 || dims(self) == 3",
                    "len(output_size) == 2",
                    *common["conditions"],
                    "size(self, -2) > 0",
                    "size(self, -2) % kernel == 0",
                    "size(self, -1) == rows * columns",
                ],
            },
        ),
        composed(
            "unfold_backward",
            lambda grad_in, input_sizes: grad_in.reshape(input_sizes).clone(),
            conditions=["len(input_sizes) == 0", "numel(grad_in) == 1"],
            dtypes=NUMBERS,
            **FAMILY,
        ),
        templated(
            "unfold_backward",
            "unfold_backward",
            Launch("unfold_backward", "numel(out)"),
            dtypes=NUMBERS,
            operands="grad_in",
            let={
                "d": "wrap(dim, len(input_sizes))",
                "windows": "(input_sizes[d] - size) // step + 1",
            },
            results=Result("out", "input_sizes"),
            conditions=[
                "len(input_sizes) > 0",
                "size > 0",
                "step > 0",
                "sizes(grad_in) == set(input_sizes, d, windows) + [size]",
            ],
            numbers={"along": "d", "window": "size", "hop": "step"},
            strided="grad_in out",
            **FAMILY,
        ),
    ]


def _copied(view: Tensor, shape: Sequence[int], model: Tensor) -> Tensor:
    """The elements in row-major order with another shape, in the memory format of `model`."""
    copy = view.clone(memory_format=torch.contiguous_format).reshape(shape)
    return copy.contiguous(memory_format=suggest_memory_format(model))


def _channel_shuffle(self: Tensor, groups: int) -> Tensor:
    shape = self.shape
    grouped = self.reshape([shape[0], groups, shape[1] // groups, *shape[2:]])
    return _copied(grouped.transpose(1, 2), shape, self)


def _pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    r = upscale_factor
    *batch, channels, h, w = self.shape
    c = channels // (r * r)
    x = self.reshape([*batch, c, r, r, h, w])
    return _copied(x.movedim(-4, -2).movedim(-4, -1), [*batch, c, h * r, w * r], self)


def _pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    r = downscale_factor
    *batch, c, height, width = self.shape
    h, w = height // r, width // r
    x = self.reshape([*batch, c, h, r, w, r])
    return _copied(x.movedim(-3, -4).movedim(-1, -3), [*batch, c * r * r, h, w], self)


def _narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    return self.narrow(dim, start, length).clone(memory_format=torch.contiguous_format)


def _indices_of(lower: bool) -> Callable[..., Tensor]:
    def body(
        row: int, col: int, offset: int, dtype: torch.dtype | None, device: torch.device
    ) -> Tensor:
        # Columns behind those of the last row, or rows below those of the last column, have none.
        if lower:
            col = min(col, max(row + offset, 0))
        else:
            row = min(row, max(col - offset, 0))
        whole = torch.ones([row, col], dtype=torch.bool, device=device)
        places = (torch.tril if lower else torch.triu)(whole, offset).nonzero()
        return places.t().to(dtype or torch.int64).contiguous()

    return body


def rearranged() -> list[Row]:
    """What copies of views do."""
    divisible = ["dims(self) > 2", "groups > 0", "size(self, 1) % groups == 0", "numel(self) > 0"]
    return [
        *(
            composed(name, _channel_shuffle, conditions=divisible, **FAMILY)
            for name in ("channel_shuffle", "native_channel_shuffle")
        ),
        composed(
            "pixel_shuffle",
            _pixel_shuffle,
            conditions=[
                "dims(self) > 2",
                "upscale_factor > 0",
                "size(self, -3) % (upscale_factor * upscale_factor) == 0",
            ],
            **FAMILY,
        ),
        composed(
            "pixel_unshuffle",
            _pixel_unshuffle,
            conditions=[
                "dims(self) > 2",
                "downscale_factor > 0",
                "size(self, -2) % downscale_factor == 0",
                "size(self, -1) % downscale_factor == 0",
            ],
            **FAMILY,
        ),
        composed(
            "narrow_copy",
            _narrow_copy,
            conditions=["-dims(self) <= dim && dim < dims(self)", "length >= 0"],
            **FAMILY,
        ),
        templated(
            "narrow_copy.out",
            "remap",
            Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
            dtypes=EVERY,
            items_of="self out",
            strided="self out",
            results=Result("out", "set(sizes(self), d, length)"),
            let={
                "d": "wrap(dim, dims(self))",
                "n": "size(self, d)",
                "first": "start < 0 ? start + n : start",
            },
            numbers={"count": "0"},
            lists={
                "amounts": "set(fill(0, 2 * dims(self)), 2 * (dims(self) - 1 - d), -first)",
                "along": "[]",
            },
            constants={"MODE": "2"},
            conditions=[
                "dims(self) <= 8",
                "-n <= start && start <= n",
                "length >= 0",
                "first + length <= n",
            ],
            resizes_silently=True,
            **FAMILY,
        ),
        composed(
            "trace",
            lambda self: self.diagonal(0, 0, 1).sum(),
            conditions=["dims(self) == 2"],
            dtypes=NUMBERS,
            **FAMILY,
        ),
        *(
            composed(
                f"{name}_indices",
                _indices_of(lower),
                # int32 and int64 alone, as on CPU.
                conditions=[
                    "row >= 0",
                    "col >= 0",
                    "3 <= either(dtype, 4) && either(dtype, 4) <= 4",
                ],
                **FAMILY,
            )
            for name, lower in (("tril", True), ("triu", False))
        ),
    ]


def _and_mean(spread: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    def body(
        self: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
    ) -> tuple[Tensor, Tensor]:
        wanted = spread(self, dim, correction=correction, keepdim=keepdim)
        return wanted, torch.mean(self, dim, keepdim)

    return body


def _norm_of_dtype(
    self: Tensor,
    p: float | None,
    dim: list[int],
    keepdim: bool,
    dtype: torch.dtype | None,
    out: Tensor,
) -> None:
    order = 2 if p is None else p
    out.copy_(torch.linalg.vector_norm(self, order, dim, keepdim, dtype=dtype))


def _norm(self: Tensor, p: float | None, dim: list[int], keepdim: bool, out: Tensor) -> None:
    _norm_of_dtype(self, p, dim, keepdim, None, out)


def _glu(self: Tensor, dim: int, out: Tensor) -> None:
    a, b = self.chunk(2, dim)
    torch.mul(a, b.sigmoid(), out=out)


def _renorm(self: Tensor, p: float, dim: int, maxnorm: float, out: Tensor) -> None:
    others = [d for d in range(self.dim()) if d != dim % self.dim()]
    norm = torch.linalg.vector_norm(self, p, others, True)
    scale = torch.where(norm > maxnorm, (norm + 1e-7).reciprocal() * maxnorm, 1.0)
    out.copy_(self * scale.to(self.dtype))


def _cross(self: Tensor, other: Tensor, dim: int, out: Tensor) -> None:
    a, b = torch.broadcast_tensors(self, other)
    left = a.roll([-1], [dim]) * b.roll([-2], [dim])
    out.copy_(left - a.roll([-2], [dim]) * b.roll([-1], [dim]))


def _aminmax(self: Tensor, dim: int | None, keepdim: bool, min_: Tensor, max_: Tensor) -> None:
    if dim is None:
        min_.copy_(self.amin().reshape(min_.shape))
        max_.copy_(self.amax().reshape(max_.shape))
    else:
        min_.copy_(self.amin([dim], keepdim))
        max_.copy_(self.amax([dim], keepdim))


def halves() -> list[Row]:
    """Gated linear units, and what else is made of slices and pointwise operators."""
    differentiable = (*FLOATS, *COMPLEX)
    return [
        composed("var_mean.correction", _and_mean(torch.var), dtypes=FLOATS, **FAMILY),
        composed("std_mean.correction", _and_mean(torch.std), dtypes=FLOATS, **FAMILY),
        composed(
            "norm.ScalarOpt_dim norm.out",
            _norm,
            results="out",
            meta="aten::norm.ScalarOpt_dim",
            dtypes=differentiable,
            **FAMILY,
        ),
        composed(
            "norm.ScalarOpt_dim_dtype norm.dtype_out",
            _norm_of_dtype,
            results="out",
            meta="aten::norm.ScalarOpt_dim_dtype",
            dtypes=differentiable,
            **FAMILY,
        ),
        composed(
            "glu glu.out",
            _glu,
            results="out",
            meta="aten::glu",
            casts="RuntimeError",
            dtypes=FLOATS,
            **FAMILY,
        ),
        composed(
            "renorm renorm.out renorm_",
            _renorm,
            results="out",
            conditions=["-dims(self) <= dim && dim < dims(self)"],
            meta="aten::renorm",
            dtypes=differentiable,
            **FAMILY,
        ),
        composed(
            "linalg_cross linalg_cross.out",
            _cross,
            results="out",
            meta="aten::linalg_cross",
            requires={"other": "dtype of self"},
            dtypes=NUMBERS,
            **FAMILY,
        ),
        composed(
            "aminmax aminmax.out",
            _aminmax,
            results="min max",
            meta="aten::aminmax",
            dtypes=(*FLOATS, *INTEGERS, *BOOL),
            **FAMILY,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [*remapped(), *triangles(), *windows(), *rearranged(), *halves()]
