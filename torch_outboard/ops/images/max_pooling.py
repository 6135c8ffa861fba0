"""Max pooling, fractional max pooling (windows at random positions), and max unpooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_outboard.ops.definition import FLOATS, INTEGERS, Definition
from torch_outboard.ops.images.plane_scatter import plane_scatter, require_room, scatter_planes
from torch_outboard.ops.images.pooling_windows import (
    Windows,
    line_count,
    pass_dilation,
    pass_images,
    pass_kernel_size,
    pass_windows,
    per_axis,
    plane_count,
    require_adjacent_channels,
    strides_like,
    windows_of,
)
from torch_outboard.ops.requirements import of_dtype_of
from torch_outboard.ops.symbolic import SymBool, SymInts, SymTensor, expand, where
from torch_outboard.ops.template import Body, Plan, template

# PyTorch stores window parameters as int, and max_pool_channels.cl stores element indices as int.
_INT32_VALUES = 2**31


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    made = [max_pool_of_adjacent_channels, max_pool_backward_of_adjacent_channels]
    for dimensions in (2, 3):
        made += [_max_pool(dimensions), _max_pool_backward(dimensions)]
    for dimensions in (2, 3):
        made += [_fractional_max_pool(dimensions), _fractional_max_pool_backward(dimensions)]
    return [*made, max_unpool2d, max_unpool3d]


def _pass(
    plan: Plan, inputs: SymTensor, outputs: SymTensor, dimensions: int, **windows: Any
) -> None:
    """Passes the arguments of a call to kernels; `windows` has those of windows_of."""
    known = windows_of(dimensions, **windows)
    pass_images(plan, inputs, outputs, dimensions)
    pass_windows(plan, known)
    pass_dilation(plan, known)


# ---- Images with adjacent channels


@template(
    "max_pool2d_with_indices max_pool2d_with_indices.out",
    "pooling max_pool_channels",
    dtypes=(*FLOATS, *INTEGERS),
    strided=("self", "out", "indices"),
)
def max_pool_of_adjacent_channels(plan: Plan, self: SymTensor, **rest: Any) -> None:
    """Max pooling of images in the memory format channels_last."""
    require_adjacent_channels(plan, self)
    plan.require(self.numel() < _INT32_VALUES)
    out = plan.result()
    plan.result("indices", dtype=torch.int64)
    plan.parameters(channels=self.size(1))
    _pass(plan, self, out, 2, **rest)
    plan.launch("max_pool_channels", groups=line_count(out))


@template(
    "max_pool2d_with_indices_backward max_pool2d_with_indices_backward.grad_input",
    "pooling max_pool_backward_channels",
    dtypes=FLOATS,
    shapes_only=("self",),
    accepts={"indices": (torch.int64,)},
    strided=("grad_output", "indices", "out"),
    requires={"self": of_dtype_of("grad_output")},
)
def max_pool_backward_of_adjacent_channels(
    plan: Plan, grad_output: SymTensor, self: SymTensor, indices: SymTensor, **rest: Any
) -> None:
    """The gradient of `max_pool_of_adjacent_channels`, with all tensors in channels_last."""
    require_adjacent_channels(plan, self)
    plan.require((grad_output.dim() == 4) & (indices.dim() == 4))
    for tensor in (grad_output, indices):
        plan.require((tensor.size(1) > 1) & (tensor.stride(1) == 1))
    out = plan.result()
    plan.parameters(channels=self.size(1))
    _pass(plan, self, grad_output, 2, **rest)
    plan.launch("max_pool_backward_channels", groups=line_count(out))


# ---- Planes and volumes


def _pooled_shape(image: SymTensor, windows: Windows, ceil_mode: SymBool) -> SymInts:
    """The shape of the pooled result."""
    sizes = []
    axes = zip(windows.kernel, windows.step, windows.padding, windows.dilation, strict=True)
    for axis, (kernel, step, padding, dilation) in enumerate(axes):
        extent = image.size(axis - 3)
        room = extent + 2 * padding - dilation * (kernel - 1) - 1
        size = (room + where(ceil_mode, step - 1, 0)) // step + 1
        # The last window has to start in the image or its padding in front.
        outside = ceil_mode & ((size - 1) * step >= extent + padding)
        sizes.append(where(outside, size - 1, size))
    return image.shape[:-3] + sizes


def _volume_shape(
    plan: Plan, image: SymTensor, ceil_mode: SymBool, stride: SymInts, **rest: Any
) -> SymInts:
    """The shape of the pooled result; PyTorch has no Meta kernel in C++ for volumes.

    Declines calls for which PyTorch raises.
    """
    windows = windows_of(3, stride=stride, **rest)
    plan.require((image.dim() == 5) | (image.dim() == 4), image.numel() > 0)
    for values in (rest["kernel_size"], stride, rest["padding"], rest["dilation"]):
        right = (values.len() == 1) | (values.len() == 3)
        plan.require(right | (values.len() == 0) if values is stride else right)
    axes = zip(windows.kernel, windows.step, windows.padding, windows.dilation, strict=True)
    for kernel, step, padding, dilation in axes:
        plan.require(
            (kernel > 0) & (padding >= 0) & (2 * padding <= kernel), (step > 0) & (dilation > 0)
        )
        plan.require(*(value < _INT32_VALUES for value in (kernel, step, padding, dilation)))
    shape = _pooled_shape(image, windows, ceil_mode)
    plan.require(shape[-3:].min() > 0)
    return shape


def _max_pool(dimensions: int) -> Definition:
    name = f"max_pool{dimensions}d_with_indices"

    @template(f"{name} {name}.out", "pooling max_pool", dtypes=(*FLOATS, *INTEGERS))
    def max_pool(plan: Plan, self: SymTensor, **rest: Any) -> None:
        shape = strides = None
        if dimensions == 3:
            shape = _volume_shape(plan, self, **rest)
            strides = strides_like(self, shape, 3)
        out = plan.result("out", shape, strides=strides)
        plan.result("indices", shape, torch.int64, strides=strides)
        _pass(plan, self, out, dimensions, **rest)
        plan.launch("max_pool", groups=plane_count(out, dimensions))

    return max_pool


def _max_pool_backward(dimensions: int) -> Definition:
    name = f"max_pool{dimensions}d_with_indices_backward"

    @template(
        f"{name} {name}.grad_input",
        "pooling max_pool_backward",
        dtypes=FLOATS,
        shapes_only=("self",),
        accepts={"indices": (torch.int64,)},
        requires={"self": of_dtype_of("grad_output")},
    )
    def max_pool_backward(
        plan: Plan, grad_output: SymTensor, self: SymTensor, indices: SymTensor, **rest: Any
    ) -> None:
        if dimensions == 3:
            pooled = _volume_shape(plan, self, **rest)
            plan.require((grad_output.shape == pooled) & (indices.shape == pooled))
            out = plan.result("out", self.shape, strides=strides_like(self, self.shape, 3))
        else:
            out = plan.result()
        _pass(plan, self, grad_output, dimensions, **rest)
        plan.launch("max_pool_backward", groups=plane_count(out, dimensions))

    return max_pool_backward


# ---- Windows at random positions


def _fractional_max_pool(dimensions: int) -> Definition:
    name = f"fractional_max_pool{dimensions}d"

    @template(
        f"{name} {name}.output", "pooling fractional_max_pool", dtypes=FLOATS, meta=f"aten::{name}"
    )
    def fractional_max_pool(
        plan: Plan, self: SymTensor, random_samples: SymTensor, kernel_size: SymInts
    ) -> None:
        # PyTorch checks these conditions only in the CPU kernel.
        plan.require(
            (random_samples.dim() == 3) & (random_samples.size(2) == dimensions),
            random_samples.size(1) == self.size(-dimensions - 1),
            (self.dim() == dimensions + 1) | (random_samples.size(0) >= self.size(0)),
            random_samples.size(0) > 0,
        )
        output = plan.result("output")
        plan.result("indices", dtype=torch.int64)
        pass_kernel_size(plan, per_axis(expand(kernel_size, dimensions), dimensions, 1))
        pass_images(plan, self, output, dimensions)
        plan.parameters(samples=dimensions)
        plan.launch("fractional_max_pool", groups=plane_count(output, dimensions))

    return fractional_max_pool


def _fractional_max_pool_backward(dimensions: int) -> Definition:
    name = f"fractional_max_pool{dimensions}d_backward"

    @plane_scatter(
        f"{name} {name}.grad_input",
        "grad_output",
        meta=f"aten::{name}" if dimensions == 2 else "",
    )
    def fractional_max_pool_backward(
        plan: Plan,
        grad_output: SymTensor,
        self: SymTensor,
        output_size: SymInts,
        indices: SymTensor,
    ) -> None:
        plane = self.shape[-dimensions:]
        require_room(plan, grad_output, plane)
        if dimensions == 3:  # PyTorch has no Meta kernel in C++
            plan.require(
                (self.dim() == 4) | (self.dim() == 5),
                (grad_output.dim() == self.dim()) & (indices.shape == grad_output.shape),
                grad_output.shape == self.shape[:-3] + output_size,
            )
        plan.result("out", self.shape if dimensions == 3 else None, initial=0)
        scatter_planes(plan, grad_output, plane, dimensions, adds=True)

    return fractional_max_pool_backward


# ---- Unpooling


def _unpooling(name: str) -> Callable[[Body], Definition]:
    # Duplicate indices are not deterministic, for which PyTorch may raise.
    alert = name.replace("unpool", "unpooling") + "_forward_out"
    return plane_scatter(f"{name} {name}.out", "self", alert=alert)


def _require_planes(
    plan: Plan, values: SymTensor, indices: SymTensor, output_size: SymInts, dimensions: int
) -> None:
    require_room(plan, values, output_size)
    plan.require(
        (values.dim() == dimensions + 1) | (values.dim() == dimensions + 2),
        (values.shape == indices.shape) & (output_size.len() == dimensions),
        values.shape[-1 - dimensions :].min() > 0,
        output_size.min() > 0,
    )


@_unpooling("max_unpool2d")
def max_unpool2d(plan: Plan, self: SymTensor, indices: SymTensor, output_size: SymInts) -> None:
    """Writes values of planes to their indices."""
    _require_planes(plan, self, indices, output_size, 2)
    shape = self.shape[:-2] + output_size
    plan.result("out", shape, strides=strides_like(self, shape, 2), initial=0)
    scatter_planes(plan, self, output_size, 2, adds=False)


@_unpooling("max_unpool3d")
def max_unpool3d(
    plan: Plan,
    self: SymTensor,
    indices: SymTensor,
    output_size: SymInts,
    stride: SymInts,
    padding: SymInts,
) -> None:
    """Writes values of volumes to their indices."""
    _require_planes(plan, self, indices, output_size, 3)
    plan.require((stride.len() == 3) & (padding.len() == 3), stride.min() > 0)
    plan.result("out", self.shape[:-3] + output_size, initial=0)
    scatter_planes(plan, self, output_size, 3, adds=False)
