"""Average pooling."""

from __future__ import annotations

from typing import Any

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
from torch_outboard.ops.symbolic import SymBool, SymInt, SymTensor, either
from torch_outboard.ops.template import Plan, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    made = [average_pool_of_adjacent_channels]
    for dimensions in (2, 3):
        made += [_average_pool(dimensions), _average_pool_backward(dimensions)]
    return made


def _pass(
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
    """Passes the arguments of a call to kernels; `windows` has those of windows_of."""
    pass_windows(plan, windows_of(dimensions, **windows))
    pass_images(plan, inputs, outputs, dimensions)
    plan.parameters(divisor=either(divisor_override, 0), padded=count_include_pad)
    plan.constants(BACKWARD=backward)


@template(
    "avg_pool2d avg_pool2d.out",
    "pooling average_pool average_pool_channels",
    dtypes=(*FLOATS, torch.int64),
    strided=("self", "out"),
)
def average_pool_of_adjacent_channels(plan: Plan, self: SymTensor, **rest: Any) -> None:
    """Average pooling of images in the memory format channels_last."""
    require_adjacent_channels(plan, self)
    out = plan.result()
    plan.parameters(channels=self.size(1))
    _pass(plan, self, out, 2, **rest)
    plan.launch("average_pool_channels", groups=line_count(out))


def _dtypes(dimensions: int) -> tuple[torch.dtype, ...]:
    # In three dimensions CPU's kernel does not support half precision.
    floats = FLOATS if dimensions == 2 else (torch.float32, torch.float64)
    return (*floats, torch.int64)


def _average_pool(dimensions: int) -> Definition:
    name = f"avg_pool{dimensions}d"

    @template(f"{name} {name}.out", "pooling average_pool", dtypes=_dtypes(dimensions))
    def average_pool(plan: Plan, self: SymTensor, **rest: Any) -> None:
        out = plan.result()
        _pass(plan, self, out, dimensions, **rest)
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
    )
    def average_pool_backward(
        plan: Plan, grad_output: SymTensor, self: SymTensor, **rest: Any
    ) -> None:
        out = plan.result()
        _pass(plan, self, grad_output, dimensions, backward=True, **rest)
        plan.launch("average_pool", groups=plane_count(out, dimensions))

    return average_pool_backward
