"""Average and max pooling, also to a given size and at random positions, and max unpooling."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import FLOATS, INTEGERS, WIDE, Definition
from torch_outboard.ops.images.pooling_windows import (
    Windows,
    launch_planes,
    pass_axes,
    pass_images,
    per_axis,
    require_adjacent_channels,
    strides_like,
    windows_of,
)
from torch_outboard.ops.symbolic import (
    SymBool,
    SymInt,
    SymInts,
    SymTensor,
    either,
    expand,
    has_dtype,
    same_dtype,
    where,
)
from torch_outboard.ops.template import Plan, template

# PyTorch stores window parameters as int, and max_pool.cl stores element indices as int.
_INT32_VALUES = 2**31
_gradient = partial(template, shapes_only=("self",))


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    kinds = (
        _average_pool,
        _average_pool_backward,
        _max_pool,
        _max_pool_backward,
        _fractional_max_pool,
        _fractional_max_pool_backward,
        _max_unpool,
        _adaptive_average_pool,
        _adaptive_average_pool_backward,
        _adaptive_max_pool,
        _adaptive_max_pool_backward,
    )
    return [
        *(define(2, adjacent=True) for define in (_average_pool, _max_pool, _max_pool_backward)),
        *(define(dimensions) for define in kinds for dimensions in (2, 3)),
    ]


def _pass(
    plan: Plan, inputs: SymTensor, outputs: SymTensor, dimensions: int, **windows: Any
) -> None:
    """Passes the arguments of a call to kernels; `windows` has those of windows_of."""
    pass_images(plan, inputs, outputs, dimensions)
    for name, values in windows_of(dimensions, **windows)._asdict().items():
        pass_axes(plan, name, values)


# ---- Average pooling


def _pass_average(
    plan: Plan,
    inputs: SymTensor,
    outputs: SymTensor,
    dimensions: int,
    count_include_pad: SymBool,
    divisor_override: SymInt,
    *,
    backward: bool = False,
    **windows: Any,
) -> None:
    _pass(plan, inputs, outputs, dimensions, **windows)
    plan.parameters(divisor=either(divisor_override, 0), padded=count_include_pad)
    plan.constants(BACKWARD=backward)


def _average_dtypes(dimensions: int) -> tuple[torch.dtype, ...]:
    # In three dimensions CPU's kernel does not support half precision.
    floats = FLOATS if dimensions == 2 else WIDE
    return (*floats, torch.int64)


def _average_pool(dimensions: int, *, adjacent: bool = False) -> Definition:
    """`adjacent`: of images with adjacent channels."""
    name = f"avg_pool{dimensions}d"

    @template(
        f"{name} {name}.out",
        "pooling average_pool",
        dtypes=_average_dtypes(dimensions),
        strided=("self", "out") if adjacent else (),
    )
    def average_pool(plan: Plan, self: SymTensor, **rest: Any) -> None:
        if adjacent:
            require_adjacent_channels(plan, self)
        out = plan.result()
        _pass_average(plan, self, out, dimensions, **rest)
        launch_planes(plan, "average_pool", out, dimensions, adjacent=adjacent)

    return average_pool


def _average_pool_backward(dimensions: int) -> Definition:
    name = f"avg_pool{dimensions}d_backward"

    @_gradient(
        f"{name} {name}.grad_input", "pooling average_pool", dtypes=_average_dtypes(dimensions)
    )
    def average_pool_backward(
        plan: Plan, grad_output: SymTensor, self: SymTensor, **rest: Any
    ) -> None:
        plan.require(same_dtype(self, grad_output))
        out = plan.result()
        _pass_average(plan, self, grad_output, dimensions, backward=True, **rest)
        launch_planes(plan, "average_pool", out, dimensions)

    return average_pool_backward


# ---- Max pooling


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


def _max_pool(dimensions: int, *, adjacent: bool = False) -> Definition:
    """`adjacent`: of images with adjacent channels."""
    name = f"max_pool{dimensions}d_with_indices"

    @template(
        f"{name} {name}.out",
        "pooling max_pool",
        dtypes=(*FLOATS, *INTEGERS),
        strided=("self", "out", "indices") if adjacent else (),
    )
    def max_pool(plan: Plan, self: SymTensor, **rest: Any) -> None:
        shape = strides = None
        if adjacent:
            require_adjacent_channels(plan, self)
            plan.require(self.numel() < _INT32_VALUES)
        elif dimensions == 3:
            shape = _volume_shape(plan, self, **rest)
            strides = strides_like(self, shape, 3)
        out = plan.result("out", shape, strides=strides)
        plan.result("indices", shape, torch.int64, strides=strides)
        _pass(plan, self, out, dimensions, **rest)
        launch_planes(plan, "max_pool", out, dimensions, adjacent=adjacent)

    return max_pool


def _max_pool_backward(dimensions: int, *, adjacent: bool = False) -> Definition:
    """`adjacent`: of tensors that all have adjacent channels."""
    name = f"max_pool{dimensions}d_with_indices_backward"

    @_gradient(
        f"{name} {name}.grad_input",
        "pooling max_pool",
        dtypes=FLOATS,
        accepts={"indices": (torch.int64,)},
        strided=("grad_output", "indices", "out") if adjacent else (),
    )
    def max_pool_backward(
        plan: Plan, grad_output: SymTensor, self: SymTensor, indices: SymTensor, **rest: Any
    ) -> None:
        plan.require(same_dtype(self, grad_output))
        if adjacent:
            for tensor in (self, grad_output, indices):
                require_adjacent_channels(plan, tensor)
        shape = strides = None
        if dimensions == 3:
            pooled = _volume_shape(plan, self, **rest)
            plan.require((grad_output.shape == pooled) & (indices.shape == pooled))
            shape, strides = self.shape, strides_like(self, self.shape, 3)
        out = plan.result("out", shape, strides=strides)
        _pass(plan, self, grad_output, dimensions, **rest)
        launch_planes(plan, "max_pool_backward", out, dimensions, adjacent=adjacent)

    return max_pool_backward


# ---- Windows at random positions


def _fractional_max_pool(dimensions: int) -> Definition:
    name = f"fractional_max_pool{dimensions}d"

    @template(f"{name} {name}.output", "pooling max_pool", dtypes=FLOATS, meta=f"aten::{name}")
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
        out = plan.result("out")
        plan.result("indices", dtype=torch.int64)
        pass_axes(plan, "kernel", per_axis(expand(kernel_size, dimensions), dimensions, 1))
        pass_images(plan, self, out, dimensions)
        plan.parameters(samples=dimensions)
        launch_planes(plan, "max_pool", out, dimensions)

    return fractional_max_pool


# ---- Values that return to the indices that pooling read


def _scattered(
    values: Tensor, indices: Tensor, shape: Sequence[int], dimensions: int, *, adds: bool
) -> Tensor:
    """Values at indices in planes of zeros; `adds`: values of equal indices are summed."""
    planes = values.new_zeros(shape)
    flat = planes.flatten(-dimensions)
    scatter = flat.scatter_add_ if adds else flat.scatter_
    scatter(-1, indices.flatten(-dimensions), values.flatten(-dimensions))
    return planes


def _fits_planes(values: SymTensor, indices: SymTensor, plane: SymInts) -> SymBool:
    has_room = (plane.prod() > 0) | (values.numel() == 0)
    return has_dtype(indices, torch.int64) & (indices.shape == values.shape) & has_room


def _fractional_max_pool_backward(dimensions: int) -> Definition:
    name = f"fractional_max_pool{dimensions}d_backward"

    def body(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        return _scattered(grad_output, indices, self.shape, dimensions, adds=True)

    def served(
        grad_output: SymTensor, self: SymTensor, output_size: SymInts, indices: SymTensor
    ) -> SymBool:
        fits = _fits_planes(grad_output, indices, self.shape[-dimensions:])
        if dimensions == 3:  # PyTorch has no Meta kernel in C++
            fits = fits & ((self.dim() == 4) | (self.dim() == 5))
            fits = fits & (grad_output.shape == self.shape[:-3] + output_size)
        return same_dtype(self, grad_output) & fits

    return decomposition(
        f"{name} {name}.grad_input", body, dtypes=FLOATS, condition=served,
        meta=f"aten::{name}" if dimensions == 2 else "", reports=RuntimeError,
    )  # fmt: skip


def _adaptive_max_pool_backward(dimensions: int) -> Definition:
    name = f"adaptive_max_pool{dimensions}d_backward"

    def body(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        planes = _scattered(grad_output, indices, self.shape, dimensions, adds=True)
        return _in_format_of(self, planes, dimensions)

    def served(grad_output: SymTensor, self: SymTensor, indices: SymTensor) -> SymBool:
        fits = _fits_planes(grad_output, indices, self.shape[-dimensions:])
        fits = fits & (grad_output.shape[:-dimensions] == self.shape[:-dimensions])
        some = (self.numel() > 0) | (grad_output.numel() == 0)
        return same_dtype(self, grad_output) & fits & some

    return decomposition(
        f"{name} {name}.grad_input", body, dtypes=FLOATS, condition=served, reports=RuntimeError
    )


def _in_format_of(image: Tensor, planes: Tensor, dimensions: int) -> Tensor:
    # PyTorch keeps the memory format in two dimensions only.
    if dimensions == 3:
        return planes
    return planes.contiguous(memory_format=suggest_memory_format(image))


def _max_unpool(dimensions: int) -> Definition:
    """Writes values of planes or volumes to their indices."""
    name = f"max_unpool{dimensions}d"

    def body(self: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
        shape = [*self.shape[:-dimensions], *output_size]
        planes = _scattered(self, indices, shape, dimensions, adds=False)
        return _in_format_of(self, planes, dimensions)

    def served(self: SymTensor, indices: SymTensor, output_size: SymInts, **rest: Any) -> SymBool:
        fits = (self.dim() == dimensions + 1) | (self.dim() == dimensions + 2)
        fits = fits & (output_size.len() == dimensions) & (output_size.min() > 0)
        fits = fits & (self.shape[-1 - dimensions :].min() > 0)
        if dimensions == 3:
            stride, padding = rest["stride"], rest["padding"]
            fits = fits & (stride.len() == 3) & (padding.len() == 3) & (stride.min() > 0)
        return fits & _fits_planes(self, indices, output_size)

    # Duplicate indices are not deterministic, for which PyTorch may raise.
    return decomposition(
        f"{name} {name}.out", body, dtypes=FLOATS, condition=served, reports=RuntimeError,
        alert=f"max_unpooling{dimensions}d_forward_out",
    )  # fmt: skip


# ---- Pooling to a given size


def _launch_adaptive(
    plan: Plan,
    kernel: str,
    inputs: SymTensor,
    outputs: SymTensor,
    result: SymTensor,
    dimensions: int,
) -> None:
    pass_images(plan, inputs, outputs, dimensions)
    plan.constants(ADAPTIVE=True)
    launch_planes(plan, kernel, result, dimensions)


def _has_planes(image: SymTensor, dimensions: int) -> SymBool:
    """Whether the channels and the spatial dimensions have elements."""
    return image.shape[-1 - dimensions :].min() > 0


def _require_planes(plan: Plan, image: SymTensor, dimensions: int) -> None:
    plan.require(
        (image.dim() == dimensions + 2) | (image.dim() == dimensions + 1),
        _has_planes(image, dimensions),
    )


def _adaptive_average_pool(dimensions: int) -> Definition:
    name = f"adaptive_avg_pool{dimensions}d"

    @template(f"_{name} {name}.out", "pooling average_pool", dtypes=FLOATS)
    def average_pool(plan: Plan, self: SymTensor, output_size: SymInts) -> None:
        _require_planes(plan, self, dimensions)
        plan.require(output_size.len() == dimensions, output_size.min() >= 0)
        shape = self.shape[:-dimensions] + output_size
        # PyTorch keeps the memory format in two dimensions only.
        strides = strides_like(self, shape, dimensions) if dimensions == 2 else None
        out = plan.result("out", shape, strides=strides)
        plan.constants(BACKWARD=False)
        _launch_adaptive(plan, "average_pool", self, out, out, dimensions)

    return average_pool


def _adaptive_average_pool_backward(dimensions: int) -> Definition:
    name = f"adaptive_avg_pool{dimensions}d_backward"

    @_gradient(
        f"_{name}" + (f" {name}.grad_input" if dimensions == 3 else ""),
        "pooling average_pool",
        dtypes=FLOATS,
    )
    def average_pool_backward(plan: Plan, grad_output: SymTensor, self: SymTensor) -> None:
        _require_planes(plan, self, dimensions)
        plan.require(
            same_dtype(self, grad_output),
            grad_output.dim() == self.dim(),
            _has_planes(grad_output, dimensions),
            grad_output.shape[:-dimensions] == self.shape[:-dimensions],
        )
        strides = strides_like(self, self.shape, dimensions) if dimensions == 2 else None
        out = plan.result("out", self.shape, strides=strides)
        plan.constants(BACKWARD=True)
        _launch_adaptive(plan, "average_pool", self, grad_output, out, dimensions)

    return average_pool_backward


def _adaptive_max_pool(dimensions: int) -> Definition:
    name = f"adaptive_max_pool{dimensions}d"

    @template(f"{name} {name}.out", "pooling max_pool", dtypes=FLOATS)
    def max_pool(plan: Plan, self: SymTensor) -> None:
        out = plan.result("out")
        plan.result("indices", dtype=torch.int64)
        _launch_adaptive(plan, "max_pool", self, out, out, dimensions)

    return max_pool
