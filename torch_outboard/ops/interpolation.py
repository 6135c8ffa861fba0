"""Interpolation in one to three dimensions, with backwards."""

from __future__ import annotations

import torch

from torch_outboard.ops.pooling import image, planes
from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

# MODE of interpolation.cl, names of the operators, and whether they have align_corners.
MODES = (
    (0, "upsample_nearest1d upsample_nearest2d upsample_nearest3d", False),
    (1, "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d", False),
    (2, "upsample_linear1d upsample_bilinear2d upsample_trilinear3d", True),
    (3, "upsample_bicubic2d", True),
    (4, "_upsample_bilinear2d_aa", True),
    (5, "_upsample_bicubic2d_aa", True),
    (6, "_upsample_lanczos2d_aa", True),
)


def _scales(dimensions: int, sizes: str, outputs: str, align: bool) -> dict[str, str]:
    """Elements of the input per element of the output, along each axis."""
    scales = {}
    names = ("scales",) if dimensions == 1 else ("scales_d", "scales_h", "scales_w")[-dimensions:]
    for axis, letter in enumerate("dhw"):
        at = axis - 3
        if -at > dimensions:
            scales[f"scale_{letter}"] = "1"
            continue
        inputs, results, scale = f"{sizes}[{at}]", f"{outputs}[{at}]", names[at]
        free = f"either({scale}, 0) > 0 ? 1 / {scale} : {inputs} / {results}"
        aligned = f"{results} > 1 ? ({inputs} - 1) / ({results} - 1) : 0"
        scales[f"scale_{letter}"] = f"align_corners ? ({aligned}) : ({free})" if align else free
    return scales


def _row(name: str, mode: int, align: bool, *, backward: bool, double: bool) -> Row:
    dimensions = next(d for d in (1, 2, 3) if f"{d}d" in name)
    inputs, outputs = ("out", "grad_output") if backward else ("self", "out")
    overload = f"{name}_backward" if backward else name
    dtypes = list(FLOATS[3:] if double else FLOATS[:3])
    if mode < 2 and not backward and not double:
        dtypes.append(torch.uint8)
    scales = _scales(dimensions, f"sizes({inputs})", f"sizes({outputs})", align)
    reach = {4: 1, 5: 2, 6: 3}.get(mode)
    taps = f"2 * ceil({reach} * max(1, {scales['scale_w']})) + 1" if reach else "4"
    if mode < 3:
        taps = "2" if mode == 2 else "1"
    real = "float64" if double else "float32"
    # What a processor keeps: the taps along rows, lines of sums, and sums of narrow dtypes.
    on_processor = "group_lanes == 1 ? {} : 1"
    kept = {
        "places": (f"size({outputs}, -1) * ({taps})", "int32"),
        "weights": (f"size({outputs}, -1) * ({taps})", real),
        "lines": (f"prod(sizes({inputs})[:2]) * size({inputs}, -1)", real),
    }
    if backward:
        kept["sums"] = ("bytes(grad_output) == 2 ? numel(out) : 1", real)
    groups = planes("interpolate", "out", dimensions)
    return templated(
        f"{overload} {overload}.{'grad_input' if backward else 'out'}",
        "pooling interpolation",
        [
            Launch("find_taps", f"size({outputs}, -1)", when=f"group_lanes == 1 && {groups.items}"),
            groups,
        ],
        dtypes=dtypes,
        operands="grad_output" if backward else "self",
        temporaries=[
            Result(name, sizes=on_processor.format(f"({sizes})"), dtype=dtype)
            for name, (sizes, dtype) in kept.items()
        ],
        numbers={
            **image(inputs, dimensions),
            **image(outputs, dimensions, "out_"),
            "tap_count": taps,
        },
        reals=scales,
        constants={
            "MODE": str(mode),
            "ALIGN": "align_corners" if align else "0",
            "DIMENSIONS": str(dimensions),
            "BACKWARD": str(int(backward)),
        },
        meta=f"aten::{overload}",
        vectors=mode >= 2,
        family="interpolation",
    )


def rows() -> list[Row]:
    """Every row."""
    return [
        _row(name, mode, align, backward=backward, double=double)
        for mode, names, align in MODES
        for name in names.split()
        for backward in (False, True)
        for double in (False, True)
    ]
