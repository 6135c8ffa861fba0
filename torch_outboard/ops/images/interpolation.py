"""Interpolation in one to three dimensions, with backwards."""

from __future__ import annotations

import torch

from torch_outboard.ops.images.pooling_windows import image, planes
from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

# MODE of interpolation.cl, names of the operators, and whether they have align_corners.
MODES: tuple[tuple[int, str, bool], ...] = (
    (0, "upsample_nearest1d upsample_nearest2d upsample_nearest3d", False),
    (1, "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d", False),
    (2, "upsample_linear1d upsample_bilinear2d upsample_trilinear3d", True),
    (3, "upsample_bicubic2d", True),
    (4, "_upsample_bilinear2d_aa", True),
    (5, "_upsample_bicubic2d_aa", True),
)
if hasattr(torch.ops.aten, "_upsample_lanczos2d_aa"):  # from PyTorch 2.12 on
    MODES += ((6, "_upsample_lanczos2d_aa", True),)


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
    if mode >= 4 and not double:
        # As on CPU.
        dtypes = [torch.float32]
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


def _bytes(name: str, taps: int, wide: bool) -> Row:
    """Of images of bytes, by the integers that CPU computes with."""
    scales = _scales(2, "sizes(self)", "sizes(out)", align=True)
    places = "(size(out, 2) + size(out, 3))"
    largest = f"max({scales['scale_h']}, {scales['scale_w']})"
    slots = f"2 * ceil({taps} * 0.5 * max(1, {largest})) + 1" if wide else str(taps)
    numbers = {**image("self", 2), **image("out", 2, "out_")}
    columns, rows = (f"size(self, {d}) != size(out, {d})" for d in (3, 2))
    either = f"({columns}) || ({rows})"
    return templated(
        f"{name} {name}.out",
        "interpolation_bytes",
        [
            Launch("byte_weights", places, when=either),
            Launch("byte_precisions", "2", groups=True, when=either),
            Launch("byte_round", f"{places} * ({slots})", when=either),
            Launch("byte_columns", "prod(sizes(self)[:3]) * size(out, 3)", when=columns),
            Launch("byte_rows", "numel(out)", when=rows),
            Launch("byte_copy", "numel(out)", when=f"!({either})"),
        ],
        dtypes=(torch.uint8,),
        temporaries=[
            Result("weights", f"{places} * ({slots})", "float64"),
            Result("maxima", places, "float64"),
            Result("precisions", "2", "int32"),
            Result("firsts", places, "int32"),
            Result("counts", places, "int32"),
            Result("rounded", f"{places} * ({slots})", "int32"),
            Result("lines", f"({rows}) ? prod(sizes(self)[:3]) * size(out, 3) : 1"),
        ],
        numbers={**numbers, "slots": slots},
        reals={scale: scales[scale] for scale in ("scale_h", "scale_w")},
        constants={"TAPS": str(taps), "WIDE": str(int(wide)), "ALIGN": "align_corners"},
        compute="float64",
        meta=f"aten::{name}",
        family="interpolation",
    )


def rows() -> list[Row]:
    """Every row."""
    return [
        *(
            _row(name, mode, align, backward=backward, double=double)
            for mode, names, align in MODES
            for name in names.split()
            for backward in (False, True)
            for double in (False, True)
        ),
        *(
            _bytes(name, taps, wide)
            for name, taps, wide in (
                ("upsample_bilinear2d", 2, False),
                ("upsample_bicubic2d", 4, False),
                ("_upsample_bilinear2d_aa", 2, True),
                ("_upsample_bicubic2d_aa", 4, True),
            )
        ),
    ]
