"""Interpolation in one to three dimensions, samples at positions of a grid, and gradients."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import torch

from torch_outboard.ops.definition import FLOATS, WIDE, Definition
from torch_outboard.ops.images.pooling_windows import (
    launch_planes,
    pass_axes,
    pass_image,
    pass_images,
)
from torch_outboard.ops.symbolic import (
    Int,
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymList,
    SymTensor,
    ceil,
    either,
    maximum,
    where,
)
from torch_outboard.ops.template import Dtype, Plan, template


class _Mode(IntEnum):
    """Values of MODE in interpolation.cl."""

    NEAREST = 0
    NEAREST_EXACT = 1
    LINEAR = 2
    CUBIC = 3
    LINEAR_ANTIALIASED = 4
    CUBIC_ANTIALIASED = 5
    LANCZOS_ANTIALIASED = 6


# Operators of each mode, for one dimension and more.
_NAMES: Mapping[_Mode, Sequence[str]] = {
    _Mode.NEAREST: ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    _Mode.NEAREST_EXACT: (
        "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d",
    ),
    _Mode.LINEAR: ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
    _Mode.CUBIC: ("upsample_bicubic2d",),
    _Mode.LINEAR_ANTIALIASED: ("_upsample_bilinear2d_aa",),
    _Mode.CUBIC_ANTIALIASED: ("_upsample_bicubic2d_aa",),
    # From PyTorch 2.12 on.
    _Mode.LANCZOS_ANTIALIASED: ("_upsample_lanczos2d_aa",)
    if hasattr(torch.ops.aten, "_upsample_lanczos2d_aa")
    else (),
}
# Radius of an antialiased filter, in inputs, where the image does not shrink.
_REACH: Mapping[_Mode, int] = {
    _Mode.LINEAR_ANTIALIASED: 1,
    _Mode.CUBIC_ANTIALIASED: 2,
    _Mode.LANCZOS_ANTIALIASED: 3,
}


# ---- How inputs and outputs lie


def _scales(
    inputs: SymInts, outputs: SymInts, given: Sequence[SymFloat], align_corners: SymBool | None
) -> list[SymFloat]:
    """Elements of the input per element of the output, along each dimension.

    Args:
        inputs, outputs: the shapes.
        given: scale arguments of the call, in outputs per input; they may be None.
        align_corners: None where the operator has no such argument.
    """
    scales = []
    for axis, scale in zip(range(-len(given), 0), given, strict=True):
        size, out_size = inputs[axis], outputs[axis]
        free = where(either(scale, 0.0) > 0, 1 / scale, size / out_size)
        aligned = where(out_size > 1, (size - 1) / (out_size - 1), 0.0)
        scales.append(free if align_corners is None else where(align_corners, aligned, free))
    return scales


def _tap_count(mode: _Mode, scale: SymFloat) -> Int:
    """The largest number of inputs of a line that contribute to an output."""
    if mode in _REACH:
        return 2 * ceil(_REACH[mode] * maximum(1, scale)) + 1
    return {_Mode.LINEAR: 2, _Mode.CUBIC: 4}.get(mode, 1)


# ---- Definitions


def _interpolate(name: str, mode: _Mode, *, backward: bool) -> Definition:
    dimensions = next(d for d in (1, 2, 3) if f"{d}d" in name)
    nearest = mode in (_Mode.NEAREST, _Mode.NEAREST_EXACT)
    # Antialiased modes serve the same dtypes as CPU.
    dtypes = WIDE if mode in _REACH else FLOATS
    scale_names = ["scales"] if dimensions == 1 else [f"scales_{axis}" for axis in "dhw"]
    operand, out_form = ("grad_output", "grad_input") if backward else ("self", "out")
    overload = f"{name}_backward" if backward else name

    @template(
        f"{overload} {overload}.{out_form}",
        "pooling interpolation",
        dtypes=(*dtypes, torch.uint8) if nearest and not backward else dtypes,
        meta=f"aten::{overload}",
        vectors=not nearest,
    )
    def interpolate(plan: Plan, **arguments: Any) -> None:
        given = plan.operand(operand, arguments[operand])
        out = plan.result()
        inputs, outputs = (out, given) if backward else (given, out)
        align_corners = arguments.get("align_corners")
        given_scales = [arguments[name] for name in scale_names[-dimensions:]]
        scales = _scales(inputs.shape, outputs.shape, given_scales, align_corners)
        taps = _tap_count(mode, scales[-1])

        # Temporaries of a CPU: the taps along rows, lines of sums, and sums of narrow dtypes.
        def allocate(name: str, numel: Int, dtype: Dtype = "value") -> None:
            plan.temporary(name, where(plan.on_processor, numel, 1), dtype)

        allocate("locations", outputs.size(-1) * taps, torch.int32)
        allocate("weights", outputs.size(-1) * taps)
        allocate("lines", inputs.shape[:2].prod() * inputs.size(-1))
        if backward:
            allocate("sums", where(outputs.element_size() == 2, inputs.numel(), 1))

        pass_images(plan, inputs, outputs, dimensions)
        pass_axes(plan, "scale", [*[1.0] * (3 - dimensions), *scales])
        plan.parameters(tap_count=taps)
        plan.constants(
            MODE=mode.value,
            ALIGN=False if align_corners is None else align_corners,
            DIMENSIONS=dimensions,
            BACKWARD=backward,
        )
        plan.launch("find_taps", outputs.size(-1), when=plan.on_processor & (out.numel() > 0))
        launch_planes(plan, "interpolate", out, dimensions)

    return interpolate


def _interpolate_bytes(name: str, taps: int, *, wide: bool) -> Definition:
    """Interpolation of uint8 images, in the same integer arithmetic as on CPU."""

    @template(
        f"{name} {name}.out",
        "interpolation_bytes",
        dtypes=(torch.uint8,),
        compute=torch.float64,
        meta=f"aten::{name}",
    )
    def interpolate_bytes(
        plan: Plan, self: SymTensor, align_corners: SymBool, scales_h: SymFloat, scales_w: SymFloat
    ) -> None:
        out = plan.result()
        given = (scales_h, scales_w)
        scale_h, scale_w = _scales(self.shape, out.shape, given, align_corners)
        slots: Int = taps
        if wide:
            slots = 2 * ceil(taps * 0.5 * maximum(1, maximum(scale_h, scale_w))) + 1
        # Each column and each row of the output has weights.
        lines = out.size(2) + out.size(3)
        columns = self.size(3) != out.size(3)
        rows = self.size(2) != out.size(2)
        resized_columns = self.shape[:3].prod() * out.size(3)

        plan.temporary("weights", lines * slots, torch.float64)
        plan.temporary("maxima", lines, torch.float64)
        plan.temporary("precisions", 2, torch.int32)
        plan.temporary("firsts", lines, torch.int32)
        plan.temporary("counts", lines, torch.int32)
        plan.temporary("rounded", lines * slots, torch.int32)
        plan.temporary("lines", where(rows, resized_columns, 1))
        pass_images(plan, self, out, 2)
        plan.parameters(slots=slots, scale_h=scale_h, scale_w=scale_w)
        plan.constants(TAPS=taps, WIDE=wide, ALIGN=align_corners)
        plan.launch("byte_weights", lines, when=columns | rows)
        plan.launch("byte_precisions", groups=2, when=columns | rows)
        plan.launch("byte_round", lines * slots, when=columns | rows)
        plan.launch("byte_columns", resized_columns, when=columns)
        plan.launch("byte_rows", out.numel(), when=rows)
        plan.launch("byte_copy", out.numel(), when=~(columns | rows))

    return interpolate_bytes


# ---- Samples at the positions of a grid


def _take_grid(
    plan: Plan,
    dimensions: int,
    input: SymTensor,
    grid: SymTensor,
    interpolation_mode: SymInt,
    padding_mode: SymInt,
    align_corners: SymBool,
    *,
    backward: bool,
) -> None:
    """States conditions and parameters common to the samples and the gradients."""
    modes = 2 if dimensions == 2 else 1  # no cubic interpolation in three dimensions
    plan.require(
        (input.dim() == dimensions + 2) & (grid.dim() == dimensions + 2),
        (input.size(0) == grid.size(0)) & (input.numel() > 0) & (grid.numel() > 0),
        grid.size(-1) == dimensions,
        (interpolation_mode >= 0) & (interpolation_mode <= modes),
        (padding_mode >= 0) & (padding_mode <= 2),
    )
    pass_image(plan, input, dimensions)
    plan.parameters(channels=input.size(1), samples=grid.shape[1:-1].prod())
    plan.constants(
        MODE=interpolation_mode,
        PADDING=padding_mode,
        ALIGN=align_corners,
        DIMENSIONS=dimensions,
        BACKWARD=backward,
    )


def _sampled_shape(input: SymTensor, grid: SymTensor) -> SymInts:
    return input.shape[:2] + grid.shape[1:-1]


def _sample_count(grid: SymTensor) -> SymInt:
    return grid.shape[:-1].prod()


def _sample(dimensions: int) -> Definition:
    @template(f"grid_sampler_{dimensions}d", "grid_sampling", dtypes=FLOATS)
    def sample(plan: Plan, input: SymTensor, grid: SymTensor, **rest: Any) -> None:
        _take_grid(plan, dimensions, input, grid, backward=False, **rest)
        plan.result("out", _sampled_shape(input, grid))
        plan.launch("sample", _sample_count(grid))

    return sample


def _sample_backward(dimensions: int) -> Definition:
    @template(f"grid_sampler_{dimensions}d_backward", "grid_sampling", dtypes=FLOATS)
    def sample_backward(
        plan: Plan,
        grad_output: SymTensor,
        input: SymTensor,
        grid: SymTensor,
        output_mask: SymList[SymBool],
        **rest: Any,
    ) -> None:
        _take_grid(plan, dimensions, input, grid, backward=True, **rest)
        plan.require(grad_output.shape == _sampled_shape(input, grid))
        plan.result("grad_input", input.shape, wanted=output_mask[0])
        plan.result("grad_grid", grid.shape, wanted=output_mask[1])
        # Gradients of half precision are summed in float32.
        narrow = (input.element_size() == 2) & output_mask[0]
        plan.temporary("sums", where(narrow, input.numel(), 1), "value")
        planes = input.size(0) * input.size(1)
        plan.launch("differentiate_input", planes, when=output_mask[0])
        plan.launch("differentiate_grid", _sample_count(grid), when=output_mask[1])

    return sample_backward


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *(
            _interpolate(name, mode, backward=backward)
            for mode, names in _NAMES.items()
            for name in names
            for backward in (False, True)
        ),
        _interpolate_bytes("upsample_bilinear2d", 2, wide=False),
        _interpolate_bytes("upsample_bicubic2d", 4, wide=False),
        _interpolate_bytes("_upsample_bilinear2d_aa", 2, wide=True),
        _interpolate_bytes("_upsample_bicubic2d_aa", 4, wide=True),
        *(define(dimensions) for dimensions in (2, 3) for define in (_sample, _sample_backward)),
    ]
