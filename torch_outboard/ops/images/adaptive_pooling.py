"""Average and max pooling to a given size."""

from __future__ import annotations

import torch

from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.images.plane_scatter import plane_scatter, require_room, scatter_planes
from torch_outboard.ops.images.pooling_windows import pass_images, plane_count, strides_like
from torch_outboard.ops.requirements import of_dtype_of
from torch_outboard.ops.symbolic import SymBool, SymInts, SymTensor
from torch_outboard.ops.template import Plan, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        row
        for dimensions in (2, 3)
        for row in (
            _average_pool(dimensions),
            _average_pool_backward(dimensions),
            _max_pool(dimensions),
            _max_pool_backward(dimensions),
        )
    ]


def _pool(
    plan: Plan,
    inputs: SymTensor,
    outputs: SymTensor,
    result: SymTensor,
    dimensions: int,
    *,
    maximum: bool = False,
    backward: bool = False,
) -> None:
    pass_images(plan, inputs, outputs, dimensions)
    plan.constants(MAXIMUM=maximum, BACKWARD=backward)
    plan.launch("adaptive_pool", groups=plane_count(result, dimensions))


def _has_planes(image: SymTensor, dimensions: int) -> SymBool:
    """Whether the channels and the spatial dimensions have elements."""
    return image.shape[-1 - dimensions :].min() > 0


def _require_planes(plan: Plan, image: SymTensor, dimensions: int) -> None:
    plan.require(
        (image.dim() == dimensions + 2) | (image.dim() == dimensions + 1),
        _has_planes(image, dimensions),
    )


def _average_pool(dimensions: int) -> Definition:
    name = f"adaptive_avg_pool{dimensions}d"

    @template(f"_{name} {name}.out", "pooling adaptive_pool", dtypes=FLOATS)
    def average_pool(plan: Plan, self: SymTensor, output_size: SymInts) -> None:
        _require_planes(plan, self, dimensions)
        plan.require(output_size.len() == dimensions, output_size.min() >= 0)
        shape = self.shape[:-dimensions] + output_size
        # PyTorch keeps the memory format in two dimensions only.
        strides = strides_like(self, shape, dimensions) if dimensions == 2 else None
        out = plan.result("out", shape, strides=strides)
        _pool(plan, self, out, out, dimensions)

    return average_pool


def _average_pool_backward(dimensions: int) -> Definition:
    name = f"adaptive_avg_pool{dimensions}d_backward"

    @template(
        f"_{name}" + (f" {name}.grad_input" if dimensions == 3 else ""),
        "pooling adaptive_pool",
        dtypes=FLOATS,
        shapes_only=("self",),
        requires={"self": of_dtype_of("grad_output")},
    )
    def average_pool_backward(plan: Plan, grad_output: SymTensor, self: SymTensor) -> None:
        _require_planes(plan, self, dimensions)
        plan.require(
            grad_output.dim() == self.dim(),
            _has_planes(grad_output, dimensions),
            grad_output.shape[:-dimensions] == self.shape[:-dimensions],
        )
        strides = strides_like(self, self.shape, dimensions) if dimensions == 2 else None
        out = plan.result("out", self.shape, strides=strides)
        _pool(plan, self, grad_output, out, dimensions, backward=True)

    return average_pool_backward


def _max_pool(dimensions: int) -> Definition:
    name = f"adaptive_max_pool{dimensions}d"

    @template(f"{name} {name}.out", "pooling adaptive_pool", dtypes=FLOATS)
    def max_pool(plan: Plan, self: SymTensor) -> None:
        out = plan.result("out")
        plan.result("indices", dtype=torch.int64)
        _pool(plan, self, out, out, dimensions, maximum=True)

    return max_pool


def _max_pool_backward(dimensions: int) -> Definition:
    name = f"adaptive_max_pool{dimensions}d_backward"

    @plane_scatter(f"{name} {name}.grad_input", "grad_output")
    def max_pool_backward(
        plan: Plan, grad_output: SymTensor, self: SymTensor, indices: SymTensor
    ) -> None:
        plane = self.shape[-dimensions:]
        require_room(plan, grad_output, plane)
        plan.require((self.numel() > 0) | (grad_output.numel() == 0))
        plan.result("out", initial=0)
        scatter_planes(plan, grad_output, plane, dimensions, adds=True)

    return max_pool_backward
