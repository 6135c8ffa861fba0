"""Operators that move elements by rules, without index tensors, and joining."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import BOOL, COMPLEX, EVERY, FLOATS, INDICES, NUMBERS, Definition
from torch_outboard.ops.symbolic import (
    SymBool,
    SymInt,
    SymInts,
    SymTensor,
    distinct,
    expand,
    ints,
    maximum,
    where,
    wrap,
)
from torch_outboard.ops.template import Plan, template

moving = partial(template, kernels="remap", strided=("self", "out"), moves=("self", "out"))

# Rules for the source index along a dimension: MODE of remap.cl.
SHIFTED, REFLECTED, CLAMPED, PERIODIC, REVERSED = range(5)


def launch_lines(plan: Plan, kernel: str, out: SymTensor) -> None:
    """Launches a kernel whose work-groups take lines along the last dimension."""
    plan.launch(kernel, groups=out.numel() // maximum(out.size(-1), 1))


def remap(
    plan: Plan, out: SymTensor, rule: int, amounts: SymInts, along: SymInts | None = None
) -> None:
    """Moves the elements of `self` by a rule.

    Args:
        amounts: two per dimension, from the last one on, as in padding; with `along` one per
            dimension in it.
    """
    if along is None:
        plan.parameters(count=0, along=ints(()))
    else:
        plan.parameters(count=along.len(), along=along)
    plan.parameters(amounts=amounts)
    plan.constants(MODE=rule)
    launch_lines(plan, "remap", out)


def _dim_in_range(self: SymTensor, dim: SymInt) -> SymBool:
    return (dim >= -self.dim()) & (dim < self.dim())


@moving("roll", dtypes=EVERY)
def _roll(plan: Plan, self: SymTensor, shifts: SymInts, dims: SymInts) -> None:
    plan.require(
        dims.len() > 0,
        dims.len() == shifts.len(),
        dims.len() <= 16,
        _dim_in_range(self, dims.min()) & _dim_in_range(self, dims.max()),
    )
    out = plan.result("out")
    remap(plan, out, PERIODIC, shifts, along=dims)


@moving("flip", dtypes=EVERY)
def _flip(plan: Plan, self: SymTensor, dims: SymInts) -> None:
    plan.require(dims.len() <= 16, distinct(dims, self.dim()))
    out = plan.result("out", self.shape, like=self)
    remap(plan, out, REVERSED, expand(1, dims.len()), along=dims)


def triangle(name: str, *, upper: bool) -> Definition:
    """Triangular parts of matrices: tril or triu."""

    @moving(f"{name} {name}.out {name}_", kernels="triangle", dtypes=EVERY)
    def triangle(plan: Plan, self: SymTensor, diagonal: SymInt) -> None:
        plan.result("out")
        plan.parameters(diagonal=diagonal, rows=self.size(-2), columns=self.size(-1))
        plan.constants(UPPER=upper)
        launch_lines(plan, "triangle", self)

    return triangle


class _Blocks(NamedTuple):
    """Sliding blocks of images; im2col copies each block into a column."""

    height: SymInt  # of the images
    width: SymInt
    kernel_size: SymInts
    dilation: SymInts
    padding: SymInts
    stride: SymInts

    def _count(self, size: SymInt, dim: int) -> SymInt:
        reach = self.dilation[dim] * (self.kernel_size[dim] - 1)
        return (size + 2 * self.padding[dim] - reach - 1) // self.stride[dim] + 1

    @property
    def rows(self) -> SymInt:
        return self._count(self.height, 0)

    @property
    def columns(self) -> SymInt:
        return self._count(self.width, 1)

    def require(self, plan: Plan) -> None:
        positive = (self.kernel_size, self.stride, self.dilation)
        for values in (*positive, self.padding):
            plan.require(values.len() == 2)
        for values in positive:
            plan.require(values[0] > 0, values[1] > 0)
        plan.require(self.padding[0] >= 0, self.padding[1] >= 0)
        plan.require(self.rows > 0, self.columns > 0)

    def give_to(self, plan: Plan) -> None:
        plan.parameters(height=self.height, width=self.width, rows=self.rows, columns=self.columns)
        plan.parameters(kernel_size=self.kernel_size, stride=self.stride)
        plan.parameters(padding=self.padding, dilation=self.dilation)


@template("im2col im2col.out", "im2col", dtypes=(*FLOATS, *COMPLEX, *BOOL))
def _im2col(plan: Plan, self: SymTensor, kernel_size: SymInts, **rest: Any) -> None:
    blocks = _Blocks(self.size(-2), self.size(-1), kernel_size, **rest)
    plan.require((self.dim() == 3) | (self.dim() == 4), self.shape[-3:].prod() > 0)
    blocks.require(plan)
    elements = self.size(-3) * kernel_size[0] * kernel_size[1]
    out = plan.result("out", self.shape[:-3] + ints([elements, blocks.rows * blocks.columns]))
    blocks.give_to(plan)
    plan.launch("im2col", out.numel())


@template("col2im col2im.out", "im2col", dtypes=(*FLOATS, *COMPLEX))
def _col2im(
    plan: Plan, self: SymTensor, output_size: SymInts, kernel_size: SymInts, **rest: Any
) -> None:
    height, width = output_size[0], output_size[1]
    blocks = _Blocks(height, width, kernel_size, **rest)
    plan.require((self.dim() == 2) | (self.dim() == 3), output_size.len() == 2)
    blocks.require(plan)
    block_size = kernel_size[0] * kernel_size[1]
    elements = self.size(-2)
    plan.require(
        elements > 0, elements % block_size == 0, self.size(-1) == blocks.rows * blocks.columns
    )
    out = plan.result("out", self.shape[:-2] + ints([elements // block_size, height, width]))
    blocks.give_to(plan)
    plan.constants(INVERSE=True)
    plan.launch("col2im", out.numel())


@template("unfold_backward", "unfold_backward", dtypes=NUMBERS, strided=("grad_in", "out"))
def _unfold_backward(
    plan: Plan,
    grad_in: SymTensor,
    input_sizes: SymInts,
    dim: SymInt,
    size: SymInt,
    step: SymInt,
) -> None:
    d = wrap(dim, input_sizes.len())
    windows = (input_sizes[d] - size) // step + 1
    plan.require(
        input_sizes.len() > 0,
        size > 0,
        step > 0,
        grad_in.shape == input_sizes.replace(d, windows) + ints([size]),
    )
    out = plan.result("out", input_sizes)
    plan.parameters(along=d, window=size, hop=step)
    plan.launch("unfold_backward", out.numel())


def _copied(view: Tensor, shape: Sequence[int], model: Tensor) -> Tensor:
    """The view's elements, in row-major order, reshaped to `shape`, in `model`'s memory format."""
    copy = view.clone(memory_format=torch.contiguous_format).reshape(shape)
    return copy.contiguous(memory_format=suggest_memory_format(model))


def _channel_shuffle(self: Tensor, groups: int) -> Tensor:
    require(self.dim() > 2 and groups > 0 and self.size(1) % groups == 0 and self.numel() > 0)
    shape = self.shape
    grouped = self.reshape([shape[0], groups, shape[1] // groups, *shape[2:]])
    return _copied(grouped.transpose(1, 2), shape, self)


def _pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    r = upscale_factor
    require(self.dim() > 2 and r > 0 and self.size(-3) % (r * r) == 0)
    *batch, channels, h, w = self.shape
    c = channels // (r * r)
    x = self.reshape([*batch, c, r, r, h, w])
    return _copied(x.movedim(-4, -2).movedim(-4, -1), [*batch, c, h * r, w * r], self)


def _pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    r = downscale_factor
    require(self.dim() > 2 and r > 0 and self.size(-2) % r == self.size(-1) % r == 0)
    *batch, c, height, width = self.shape
    h, w = height // r, width // r
    x = self.reshape([*batch, c, h, r, w, r])
    return _copied(x.movedim(-3, -4).movedim(-1, -3), [*batch, c * r * r, h, w], self)


def _narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    require(-self.dim() <= dim < self.dim() and length >= 0)
    return self.narrow(dim, start, length).clone(memory_format=torch.contiguous_format)


def _indices_of(lower: bool) -> Callable[..., Tensor]:
    def body(
        row: int, col: int, offset: int, dtype: torch.dtype | None, device: torch.device
    ) -> Tensor:
        # The same dtypes as on CPU.
        require(row >= 0 and col >= 0 and dtype in (None, *INDICES))
        # Cuts columns right of the last row's part, or rows below the last column's part.
        if lower:
            col = min(col, max(row + offset, 0))
        else:
            row = min(row, max(col - offset, 0))
        whole = torch.ones([row, col], dtype=torch.bool, device=device)
        indices = (torch.tril if lower else torch.triu)(whole, offset).nonzero()
        return indices.t().to(dtype or torch.int64).contiguous()

    return body


@moving("narrow_copy.out", dtypes=EVERY, resizes_silently=True)
def _narrow_copy_out(
    plan: Plan, self: SymTensor, dim: SymInt, start: SymInt, length: SymInt
) -> None:
    d = wrap(dim, self.dim())
    n = self.size(d)
    first = where(start < 0, start + n, start)
    plan.require(self.dim() <= 8, (-n <= start) & (start <= n), length >= 0, first + length <= n)
    out = plan.result("out", self.shape.replace(d, length))
    # The kernel uses the first of a dimension's two amounts.
    of_dim = 2 * (self.dim() - 1 - d)
    remap(plan, out, CLAMPED, expand(0, 2 * self.dim()).replace(of_dim, -first))


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


def _renorm(self: Tensor, p: float, dim: int, maxnorm: float, out: Tensor) -> None:
    others = [d for d in range(self.dim()) if d != dim % self.dim()]
    norm = torch.linalg.vector_norm(self, p, others, True)
    scale = torch.where(norm > maxnorm, (norm + 1e-7).reciprocal() * maxnorm, 1.0)
    out.copy_(self * scale.to(self.dtype))


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    into = partial(decomposition, results="out", dtypes=(*FLOATS, *COMPLEX))
    return [
        decomposition(
            "roll",
            lambda self, shifts: torch.roll(self.reshape(-1), shifts, [0]).reshape(self.shape),
            condition=lambda shifts, dims: (dims.len() == 0) & (shifts.len() == 1),
        ),
        _roll,
        _flip,
        triangle("tril", upper=False),
        triangle("triu", upper=True),
        _im2col,
        _col2im,
        decomposition(
            "unfold_backward",
            lambda grad_in, input_sizes: grad_in.reshape(input_sizes).clone(),
            condition=lambda grad_in, input_sizes: (
                (input_sizes.len() == 0) & (grad_in.numel() == 1)
            ),
            dtypes=NUMBERS,
        ),
        _unfold_backward,
        *(
            decomposition(name, _channel_shuffle)
            for name in ("channel_shuffle", "native_channel_shuffle")
        ),
        decomposition("pixel_shuffle", _pixel_shuffle),
        decomposition("pixel_unshuffle", _pixel_unshuffle),
        decomposition("narrow_copy", _narrow_copy),
        _narrow_copy_out,
        decomposition(
            "trace",
            lambda self: self.diagonal(0, 0, 1).sum(),
            condition=lambda self: self.dim() == 2,
            dtypes=NUMBERS,
        ),
        decomposition("tril_indices", _indices_of(lower=True)),
        decomposition("triu_indices", _indices_of(lower=False)),
        into("norm.ScalarOpt_dim norm.out", _norm),
        into("norm.ScalarOpt_dim_dtype norm.dtype_out", _norm_of_dtype),
        into("renorm renorm.out renorm_", _renorm, condition=_dim_in_range),
        decomposition("cat cat.out", "cat", results="out", casts="TypeError"),
        # PyTorch's kernel of `stack` for every device joins by `cat`.
        decomposition(
            "_stack _stack.out", lambda tensors, dim: torch.stack(tensors, dim), casts="TypeError"
        ),
    ]
