"""Samples of images at the positions of a grid, and their gradients."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.images.pooling_windows import pass_input_image
from torch_outboard.ops.symbolic import SymBool, SymInt, SymInts, SymList, SymTensor, where
from torch_outboard.ops.template import Plan, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        row
        for dimensions in (2, 3)
        for double in (False, True)
        for row in (_sample(dimensions, double), _sample_backward(dimensions, double))
    ]


def _dtypes(double: bool) -> tuple[torch.dtype, ...]:
    return FLOATS[3:] if double else FLOATS[:3]


def _require_grid(
    plan: Plan,
    dimensions: int,
    input: SymTensor,
    grid: SymTensor,
    interpolation_mode: SymInt,
    padding_mode: SymInt,
    **_: object,
) -> None:
    modes = 2 if dimensions == 2 else 1  # no cubic interpolation in three dimensions
    plan.require(
        (input.dim() == dimensions + 2) & (grid.dim() == dimensions + 2),
        (input.size(0) == grid.size(0)) & (input.numel() > 0) & (grid.numel() > 0),
        grid.size(-1) == dimensions,
        (interpolation_mode >= 0) & (interpolation_mode <= modes),
        (padding_mode >= 0) & (padding_mode <= 2),
    )


def _sampled_shape(input: SymTensor, grid: SymTensor) -> SymInts:
    return input.shape[:2] + grid.shape[1:-1]


def _sample_count(grid: SymTensor) -> SymInt:
    return grid.shape[:-1].prod()


def _pass(
    plan: Plan,
    dimensions: int,
    input: SymTensor,
    grid: SymTensor,
    interpolation_mode: SymInt,
    padding_mode: SymInt,
    align_corners: SymBool,
    *,
    backward: bool,
    **_: object,
) -> None:
    pass_input_image(plan, input, dimensions)
    plan.parameters(channels=input.size(1), samples=grid.shape[1:-1].prod())
    plan.constants(
        MODE=interpolation_mode,
        PADDING=padding_mode,
        ALIGN=align_corners,
        DIMENSIONS=dimensions,
        BACKWARD=backward,
    )


def _sample(dimensions: int, double: bool) -> Definition:
    @template(f"grid_sampler_{dimensions}d", "grid_sampling", dtypes=_dtypes(double))
    def sample(plan: Plan, input: SymTensor, grid: SymTensor, **rest: Any) -> None:
        _require_grid(plan, dimensions, input, grid, **rest)
        plan.result("out", _sampled_shape(input, grid))
        _pass(plan, dimensions, input, grid, backward=False, **rest)
        plan.launch("sample", _sample_count(grid))

    return sample


def _sample_backward(dimensions: int, double: bool) -> Definition:
    @template(f"grid_sampler_{dimensions}d_backward", "grid_sampling", dtypes=_dtypes(double))
    def sample_backward(
        plan: Plan,
        grad_output: SymTensor,
        input: SymTensor,
        grid: SymTensor,
        output_mask: SymList[SymBool],
        **rest: Any,
    ) -> None:
        _require_grid(plan, dimensions, input, grid, **rest)
        plan.require(grad_output.shape == _sampled_shape(input, grid))
        plan.result("grad_input", input.shape, wanted=output_mask[0])
        plan.result("grad_grid", grid.shape, wanted=output_mask[1])
        # Gradients of half precision are summed in float32.
        narrow = (input.element_size() == 2) & output_mask[0]
        real = torch.float64 if double else torch.float32
        plan.temporary("sums", where(narrow, input.numel(), 1), real)
        _pass(plan, dimensions, input, grid, backward=True, **rest)
        planes = input.size(0) * input.size(1)
        plan.launch("differentiate_input", planes, when=output_mask[0])
        plan.launch("differentiate_grid", _sample_count(grid), when=output_mask[1])

    return sample_backward
