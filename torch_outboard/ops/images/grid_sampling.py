"""Samples of images at the places of a grid, with backwards."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.images.pooling_windows import image
from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated


def _rows_for(dimensions: int, *, double: bool) -> list[Row]:
    name = f"grid_sampler_{dimensions}d"
    modes = 2 if dimensions == 2 else 1
    conditions = [
        f"dims(input) == {dimensions + 2} && dims(grid) == {dimensions + 2}",
        "size(input, 0) == size(grid, 0) && numel(input) > 0 && numel(grid) > 0",
        f"size(grid, -1) == {dimensions}",
        f"interpolation_mode >= 0 && interpolation_mode <= {modes}",
        "padding_mode >= 0 && padding_mode <= 2",
    ]
    numbers = {
        **image("input", dimensions),
        "channels": "size(input, 1)",
        "samples": "numel(grid) / size(grid, 0) / size(grid, -1)",
    }
    common: dict[str, Any] = {
        "dtypes": FLOATS[3:] if double else FLOATS[:3],
        "numbers": numbers,
        "let": {"sizes_out": "sizes(input)[:2] + sizes(grid)[1:-1]"},
        "family": "interpolation",
    }
    constants = {
        "MODE": "interpolation_mode",
        "PADDING": "padding_mode",
        "ALIGN": "align_corners",
        "DIMENSIONS": str(dimensions),
    }
    places = "numel(grid) / size(grid, -1)"
    return [
        templated(
            name,
            "grid_sampling",
            Launch("sample", places),
            operands="input grid",
            results=Result("out", sizes="sizes_out"),
            constants={**constants, "BACKWARD": "0"},
            conditions=conditions,
            **common,
        ),
        templated(
            f"{name}_backward",
            "grid_sampling",
            [
                Launch(
                    "differentiate_input", "size(input, 0) * size(input, 1)", when="output_mask[0]"
                ),
                Launch("differentiate_grid", places, when="output_mask[1]"),
            ],
            operands="grad_output input grid",
            results=[
                Result("grad_input", sizes="sizes(input)", wanted="output_mask[0]"),
                Result("grad_grid", sizes="sizes(grid)", wanted="output_mask[1]"),
            ],
            temporaries=[
                Result(
                    "sums",
                    sizes="bytes(input) == 2 && output_mask[0] ? numel(input) : 1",
                    dtype="float64" if double else "float32",
                )
            ],
            constants={**constants, "BACKWARD": "1"},
            conditions=[*conditions, "sizes(grad_output) == sizes_out"],
            **common,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [row for d in (2, 3) for double in (False, True) for row in _rows_for(d, double=double)]
