"""Average pooling."""

from __future__ import annotations

import torch

from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.images.pooling_windows import (
    line_count,
    pass_images,
    pass_windows,
    plane_count,
    require_adjacent_channels,
    windows_of,
)
from torch_outboard.ops.requirements import of_dtype_of
from torch_outboard.ops.symbolic import SymBool, SymInt, SymInts, SymTensor, either
from torch_outboard.ops.template import Plan, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    made = [average_pool_of_adjacent_channels]
    for dimensions in (2, 3):
        made += [_average_pool(dimensions), _average_pool_backward(dimensions)]
    return made


def _pass_divisor(
    plan: Plan, count_include_pad: SymBool, divisor_override: SymInt, *, backward: bool
) -> None:
    plan.parameters(divisor=either(divisor_override, 0), padded=count_include_pad)
    plan.constants(BACKWARD=backward)


@template(
    "avg_pool2d avg_pool2d.out",
    "pooling average_pool average_pool_channels",
    dtypes=(*FLOATS, torch.int64),
    strided=("self", "out"),
    meta="aten::avg_pool2d",
    family="pooling",
)
def average_pool_of_adjacent_channels(
    plan: Plan,
    self: SymTensor,
    kernel_size: SymInts,
    stride: SymInts,
    padding: SymInts,
    count_include_pad: SymBool,
    divisor_override: SymInt,
) -> None:
    """Average pooling of images in the memory format channels_last."""
    require_adjacent_channels(plan, self)
    out = plan.result()
    plan.parameters(channels=self.size(1))
    pass_windows(plan, windows_of(2, kernel_size, stride, padding))
    pass_images(plan, self, out, 2)
    _pass_divisor(plan, count_include_pad, divisor_override, backward=False)
    plan.launch("average_pool_channels", groups=line_count(out))


def _dtypes(dimensions: int) -> tuple[torch.dtype, ...]:
    # In three dimensions CPU's kernel does not support half precision.
    floats = FLOATS if dimensions == 2 else (torch.float32, torch.float64)
    return (*floats, torch.int64)


def _average_pool(dimensions: int) -> Definition:
    name = f"avg_pool{dimensions}d"

    @template(
        f"{name} {name}.out",
        "pooling average_pool",
        dtypes=_dtypes(dimensions),
        meta=f"aten::{name}",
        family="pooling",
    )
    def average_pool(
        plan: Plan,
        self: SymTensor,
        kernel_size: SymInts,
        stride: SymInts,
        padding: SymInts,
        count_include_pad: SymBool,
        divisor_override: SymInt,
    ) -> None:
        out = plan.result()
        pass_windows(plan, windows_of(dimensions, kernel_size, stride, padding))
        pass_images(plan, self, out, dimensions)
        _pass_divisor(plan, count_include_pad, divisor_override, backward=False)
        plan.launch("average_pool", groups=plane_count(out, dimensions))

    return average_pool


def _average_pool_backward(dimensions: int) -> Definition:
    name = f"avg_pool{dimensions}d_backward"

    @template(
        f"{name} {name}.grad_input",
        "pooling average_pool",
        dtypes=_dtypes(dimensions),
        shapes_only=("self",),
        requires={"self": of_dtype_of("grad_output")},
        meta=f"aten::{name}",
        family="pooling",
    )
    def average_pool_backward(
        plan: Plan,
        grad_output: SymTensor,
        self: SymTensor,
        kernel_size: SymInts,
        stride: SymInts,
        padding: SymInts,
        count_include_pad: SymBool,
        divisor_override: SymInt,
    ) -> None:
        out = plan.result()
        pass_windows(plan, windows_of(dimensions, kernel_size, stride, padding))
        pass_images(plan, self, grad_output, dimensions)
        _pass_divisor(plan, count_include_pad, divisor_override, backward=True)
        plan.launch("average_pool", groups=plane_count(out, dimensions))

    return average_pool_backward
