"""Max pooling, also of windows at random places, and what puts values back where they were."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.images.plane_scatter import plane_scatter
from torch_outboard.ops.images.pooling_windows import (
    ADJACENT_CHANNELS,
    AXES,
    axes,
    channels_last,
    channels_last_strides,
    image,
    planes,
    window,
)
from torch_outboard.ops.row import FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

_WINDOW = ("kernel", "step", "padding", "dilation")


def _pooled(dimensions: int) -> list[str]:
    """Output sizes of max pooling."""
    sizes = []
    names = window(dimensions, dilation=True)
    for axis, at in axes(dimensions):
        if at < 0:
            continue
        letter = AXES[axis]
        kernel, step, padding, dilation = (f"({names[f'{name}_{letter}']})" for name in _WINDOW)
        extent = f"size(self, {axis - 3})"
        size = (
            f"(({extent} + 2 * {padding} - {dilation} * ({kernel} - 1) - 1"
            f" + (ceil_mode ? {step} - 1 : 0)) // {step} + 1)"
        )
        sizes.append(f"({size} - (ceil_mode && ({size} - 1) * {step} >= {extent} + {padding}))")
    return sizes


def _right_windows(dimensions: int) -> list[str]:
    """Conditions for arguments of pooling that are right."""
    lists = ("kernel_size", "stride", "padding", "dilation")
    conditions = [
        f"len({name}) == 1 || len({name}) == {dimensions}"
        + (" || len(stride) == 0" if name == "stride" else "")
        for name in lists
    ]
    names = window(dimensions, dilation=True)
    for axis, at in axes(dimensions):
        if at >= 0:
            letter = AXES[axis]
            kernel, padding = names[f"kernel_{letter}"], names[f"padding_{letter}"]
            conditions += [
                f"{kernel} > 0 && {padding} >= 0 && 2 * {padding} <= {kernel}",
                f"({names[f'step_{letter}']}) > 0 && {names[f'dilation_{letter}']} > 0",
                *(f"({names[f'{name}_{letter}']}) < 2147483648" for name in _WINDOW),
            ]
    return conditions


def max_pool_of_adjacent_channels() -> Row:
    """Max pooling of images in the memory format channels_last."""
    sizes = image("self", 2) | image("out", 2, "out_") | window(2, dilation=True)
    return templated(
        "max_pool2d_with_indices max_pool2d_with_indices.out",
        "pooling max_pool_channels",
        Launch(
            "max_pool_channels", "numel(out) > 0 ? size(out, 0) * size(out, 2) : 0", groups=True
        ),
        dtypes=(*FLOATS, *INTEGERS),
        results=[Result("out"), Result("indices", dtype="int64")],
        conditions=[*ADJACENT_CHANNELS, "numel(self) < 2147483648"],
        numbers={"channels": "size(self, 1)", **sizes},
        strided="self out indices",
        meta="aten::max_pool2d_with_indices",
        family="pooling",
    )


def max_pool_backward_of_adjacent_channels() -> Row:
    """Its gradient, where that and the places have their channels adjacent as well."""
    sizes = image("self", 2) | image("grad_output", 2, "out_") | window(2, dilation=True)
    adjacent = (
        f"size({name}, 1) > 1 && stride({name}, 1) == 1" for name in ("grad_output", "indices")
    )
    return templated(
        "max_pool2d_with_indices_backward max_pool2d_with_indices_backward.grad_input",
        "pooling max_pool_backward_channels",
        Launch(
            "max_pool_backward_channels",
            "numel(out) > 0 ? size(out, 0) * size(out, 2) : 0",
            groups=True,
        ),
        dtypes=FLOATS,
        operands="grad_output indices",
        accepts={"indices": "int64"},
        results=Result("out"),
        conditions=[*ADJACENT_CHANNELS, "dims(grad_output) == 4 && dims(indices) == 4", *adjacent],
        numbers={"channels": "size(self, 1)", **sizes},
        strided="grad_output indices out",
        requires={"self": "dtype of grad_output"},
        meta="aten::max_pool2d_with_indices_backward",
        family="pooling",
    )


def max_pool_rows() -> list[Row]:
    """Of planes, and of images with adjacent channels."""
    dtypes = (*FLOATS, *INTEGERS)
    rows = [max_pool_of_adjacent_channels(), max_pool_backward_of_adjacent_channels()]
    for dimensions in (2, 3):
        name = f"max_pool{dimensions}d_with_indices"
        numbers = {
            **image("self", dimensions),
            **window(dimensions, dilation=True),
        }
        checked: dict[str, Any] = {"meta": f"aten::{name}"}
        checked_backward: dict[str, Any] = {"meta": f"aten::{name}_backward"}
        results = [Result("out"), Result("indices", dtype="int64")]
        results_backward = Result("out")
        if dimensions == 3:  # these have no Meta kernel in C++
            batched = "dims(self) == 5"
            # A variable per size: the expressions are long.
            let = {
                "batched": batched,
                "pooled": "[" + ", ".join(_pooled(3)) + "]",
                "sizes_out": "sizes(self)[:-3] + pooled",
                "last": channels_last("self", 3, "batched"),
            }
            conditions = [
                "dims(self) == 5 || dims(self) == 4",
                "numel(self) > 0",
                *_right_windows(3),
                "pooled[0] > 0 && pooled[1] > 0 && pooled[2] > 0",
            ]
            strides = f"last ? ({channels_last_strides('sizes_out', 3, 'batched')}) : []"
            checked = {"let": let, "conditions": conditions}
            results = [
                Result(name, sizes="sizes_out", strides=strides, dtype=dtype)
                for name, dtype in (("out", ""), ("indices", "int64"))
            ]
            checked_backward = {
                "let": let,
                "conditions": [
                    *conditions,
                    "sizes(grad_output) == sizes_out && sizes(indices) == sizes_out",
                ],
            }
            inner = channels_last_strides("sizes(self)", 3, "batched")
            results_backward = Result("out", sizes="sizes(self)", strides=f"last ? ({inner}) : []")
        rows += [
            templated(
                f"{name} {name}.out",
                "pooling max_pool",
                planes("max_pool", "out", dimensions),
                dtypes=dtypes,
                results=results,
                numbers={**numbers, **image("out", dimensions, "out_")},
                family="pooling",
                **checked,
            ),
            templated(
                f"{name}_backward {name}_backward.grad_input",
                "pooling max_pool_backward",
                planes("max_pool_backward", "out", dimensions),
                dtypes=FLOATS,
                operands="grad_output indices",
                accepts={"indices": "int64"},
                results=results_backward,
                numbers={**numbers, **image("grad_output", dimensions, "out_")},
                requires={"self": "dtype of grad_output"},
                family="pooling",
                **checked_backward,
            ),
        ]
    return rows


def fractional_max_pool_rows() -> list[Row]:
    rows = []
    for dimensions in (2, 3):
        name = f"fractional_max_pool{dimensions}d"
        kernel = window(dimensions)
        # PyTorch's CPU kernel checks these by itself.
        samples = [
            f"dims(random_samples) == 3 && size(random_samples, 2) == {dimensions}",
            f"size(random_samples, 1) == size(self, {-dimensions - 1})",
            f"dims(self) == {dimensions + 1} || size(random_samples, 0) >= size(self, 0)",
            "size(random_samples, 0) > 0",
        ]
        backward: dict[str, Any] = {"meta": f"aten::{name}_backward"}
        if dimensions == 3:  # has no Meta kernel in C++
            backward = {
                "conditions": [
                    "dims(self) == 4 || dims(self) == 5",
                    "dims(grad_output) == dims(self) && sizes(indices) == sizes(grad_output)",
                    "sizes(grad_output) == sizes(self)[:-3] + output_size",
                ],
            }
        rows += [
            templated(
                f"{name} {name}.output",
                "pooling fractional_max_pool",
                planes("fractional_max_pool", "output", dimensions),
                dtypes=FLOATS,
                operands="self random_samples",
                results=[Result("output"), Result("indices", dtype="int64")],
                numbers={
                    **{key: kernel[key] for key in ("kernel_d", "kernel_h", "kernel_w")},
                    **image("self", dimensions),
                    **image("output", dimensions, "out_"),
                    "samples": str(dimensions),
                },
                conditions=samples,
                meta=f"aten::{name}",
                family="pooling",
            ),
            plane_scatter(
                f"{name}_backward {name}_backward.grad_input",
                "grad_output",
                dimensions,
                f"sizes(self)[{-dimensions}:]",
                Result("out", sizes="sizes(self)", initial="0"),
                adds=True,
                **backward,
            ),
        ]
    return rows


def max_unpool_rows() -> list[Row]:
    rows = []
    for dimensions in (2, 3):
        name = f"max_unpool{dimensions}d"
        sizes = f"sizes(self)[:{-dimensions}] + output_size"
        conditions = [
            f"dims(self) == {dimensions + 1} || dims(self) == {dimensions + 2}",
            f"sizes(self) == sizes(indices) && len(output_size) == {dimensions}",
            *(f"size(self, {-1 - i}) > 0" for i in range(dimensions + 1)),
            *(f"output_size[{i}] > 0" for i in range(dimensions)),
        ]
        strides = ""
        if dimensions == 2:
            last = f"dims(self) == 4 && ({channels_last('self', 2, '1')})"
            strides = f"{last} ? ({channels_last_strides('sizes_out', 2, '1')}) : []"
        else:
            conditions.append("len(stride) == 3 && len(padding) == 3")
            conditions += [f"stride[{i}] > 0" for i in range(3)]
        rows.append(
            plane_scatter(
                f"{name} {name}.out",
                "self",
                dimensions,
                "output_size",
                Result("out", sizes="sizes_out", strides=strides, initial="0"),
                adds=False,
                conditions=conditions,
                let={"sizes_out": sizes},
                # Which of several values for one place stays is for PyTorch to forbid.
                alert=f"max_unpooling{dimensions}d_forward_out",
            )
        )
    return rows


def rows() -> list[Row]:
    """Every row."""
    return [*max_pool_rows(), *fractional_max_pool_rows(), *max_unpool_rows()]
