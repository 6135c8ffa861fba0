"""Windows, sizes and strides of images, for pooling and interpolation.

Images have one to three spatial dimensions behind batch and channels. Kernels get a value for each
of depth, height and width; the value for a missing dimension has no effect.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch_outboard.ops.symbolic import (
    Float,
    SymBool,
    SymInt,
    SymInts,
    SymTensor,
    expand,
    ints,
    where,
)
from torch_outboard.ops.template import Plan


class Windows(NamedTuple):
    """Windows of pooling: numbers for depth, height and width."""

    kernel: Sequence[SymInt | int]
    step: Sequence[SymInt | int]
    padding: Sequence[SymInt | int]
    dilation: Sequence[SymInt | int] = (1, 1, 1)


def per_axis(values: SymInts, dimensions: int, otherwise: int) -> Sequence[SymInt | int]:
    """The last elements of a list as depth, height, width; missing ones are `otherwise`."""
    missing: list[SymInt | int] = [otherwise] * (3 - dimensions)
    return [*missing, *(values[axis] for axis in range(-dimensions, 0))]


def windows_of(
    dimensions: int,
    kernel_size: SymInts,
    stride: SymInts,
    padding: SymInts,
    dilation: SymInts | None = None,
    **_: object,
) -> Windows:
    """The windows of a call, by arguments of operators: one number or one per dimension."""
    kernel = expand(kernel_size, dimensions)
    step = where(stride.len() == 0, kernel, expand(stride, dimensions))
    windows = (
        per_axis(kernel, dimensions, 1),
        per_axis(step, dimensions, 1),
        per_axis(expand(padding, dimensions), dimensions, 0),
    )
    if dilation is None:
        return Windows(*windows)
    return Windows(*windows, per_axis(expand(dilation, dimensions), dimensions, 1))


def pass_axes(plan: Plan, name: str, values: Sequence[Float]) -> None:
    """Passes a number for each axis to kernels: `name_d`, `name_h` and `name_w`."""
    plan.parameters(**{f"{name}_{axis}": n for axis, n in zip("dhw", values, strict=True)})


def pass_image(plan: Plan, image: SymTensor, dimensions: int, prefix: str = "") -> None:
    """Passes the sizes of images to kernels: of the forward pass's input, or with a prefix."""
    depth, height, width = per_axis(image.shape, dimensions, 1)
    sizes = {"depth": depth, "height": height, "width": width}
    plan.parameters(**{prefix + name: size for name, size in sizes.items()})


def pass_images(plan: Plan, inputs: SymTensor, outputs: SymTensor, dimensions: int) -> None:
    """Passes the sizes of the forward pass's input and output images."""
    pass_image(plan, inputs, dimensions)
    pass_image(plan, outputs, dimensions, "out_")


def launch_planes(
    plan: Plan, kernel: str, result: SymTensor, dimensions: int, *, adjacent: bool = False
) -> None:
    """Launches a kernel whose work-groups compute a plane each, in three dimensions a volume.

    `adjacent`: of images with adjacent channels, where a work-group computes all channels of a
    line.
    """
    groups = result.shape[:-dimensions].prod()
    if adjacent:
        plan.parameters(channels=result.size(1))
        plan.constants(CHANNELS_LAST=True)
        groups = result.size(0) * result.size(2)
    plan.launch(kernel, groups=where(result.numel() > 0, groups, 0))


# ---- Channels last


def require_adjacent_channels(plan: Plan, image: SymTensor) -> None:
    """Requires a batch in the memory format channels_last."""
    plan.require(
        image.dim() == 4,
        (image.size(1) > 1) & (image.stride(1) == 1) & (image.stride(3) >= image.size(1)),
    )


def strides_like(image: SymTensor, shape: SymInts, dimensions: int) -> SymInts:
    """Strides of a result of a shape: channels last if an image has them, else row-major order."""
    batched = image.dim() == dimensions + 2
    last = _has_channels_last(image, dimensions, batched)
    if dimensions == 2:  # as in PyTorch, where channels_last needs a batch
        last = batched & last
    return where(last, _channels_last_strides(shape, dimensions, batched), [])


def _has_channels_last(image: SymTensor, dimensions: int, batched: SymBool) -> SymBool:
    channels = -1 - dimensions
    last = image.stride(channels) > 0
    inner = channels
    for outer in range(-1, channels, -1):
        last = last & (image.stride(outer) >= image.stride(inner) * image.size(inner))
        inner = outer
    extent = image.stride(inner) * image.size(inner)
    above = (image.stride(0) >= extent) & (extent != image.stride(channels))
    return last & (~batched | above)


def _channels_last_strides(shape: SymInts, dimensions: int, batched: SymBool) -> SymInts:
    strides: list[SymInt | int] = [1]  # of the channels
    step = shape[-1 - dimensions]
    for axis in range(-1, -1 - dimensions, -1):
        strides.insert(1, step)
        step = step * shape[axis]
    return where(batched, ints([step, *strides]), ints(strides))
