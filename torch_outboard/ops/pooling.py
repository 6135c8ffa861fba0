"""Pooling in one to three dimensions, with backwards."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.row import FLOATS, INTEGERS, Row, template
from torch_outboard.ops.template import Launch, Result, templated

AXES = "dhw"
ADJACENT_CHANNELS = [
    "dims(self) == 4",
    "size(self, 1) > 1 && stride(self, 1) == 1 && stride(self, 3) >= size(self, 1)",
]
INPUT = ("depth", "height", "width")


def _axes(dimensions: int) -> list[tuple[int, int]]:
    """Axes of an image, and where each stands in parameters; -1: there is none of the kind."""
    return [(axis, axis - 3 + dimensions if axis >= 3 - dimensions else -1) for axis in range(3)]


def planes(kernel: str, result: str, dimensions: int) -> Launch:
    """A launch of a group per plane of a result."""
    planes = f"prod(sizes({result})[:{-dimensions}])"
    return Launch(kernel, f"numel({result}) > 0 ? {planes} : 0", groups=True)


def image(tensor: str, dimensions: int, prefix: str = "") -> dict[str, str]:
    """Numbers `depth`, `height` and `width`: sizes of a tensor or of a list."""
    sizes = tensor if tensor.startswith("[") else f"sizes({tensor})"
    return {
        prefix + INPUT[axis]: f"{sizes}[{axis - 3}]" if at >= 0 else "1"
        for axis, at in _axes(dimensions)
    }


def window(dimensions: int, *, dilation: bool = False) -> dict[str, str]:
    """Numbers for the windows of the arguments kernel_size, stride, padding and dilation."""
    numbers = {}
    for axis, at in _axes(dimensions):
        letter = AXES[axis]

        def each(name: str, at: int = at) -> str:
            return f"each({name}, {dimensions})[{at}]"

        known = at >= 0
        kernel = each("kernel_size")
        numbers[f"kernel_{letter}"] = kernel if known else "1"
        numbers[f"step_{letter}"] = (
            f"len(stride) == 0 ? {kernel} : {each('stride')}" if known else "1"
        )
        numbers[f"padding_{letter}"] = each("padding") if known else "0"
        if dilation:
            numbers[f"dilation_{letter}"] = each("dilation") if known else "1"
    return numbers


def channels_last(tensor: str, dimensions: int, batched: str) -> str:
    """Whether strides of a tensor are such that results come with channels last."""
    conditions = [f"stride({tensor}, {-1 - dimensions}) > 0"]
    inner = -1 - dimensions
    for outer in range(-1, -1 - dimensions, -1):
        conditions.append(
            f"stride({tensor}, {outer}) >= stride({tensor}, {inner}) * size({tensor}, {inner})"
        )
        inner = outer
    extent = f"stride({tensor}, {inner}) * size({tensor}, {inner})"
    conditions.append(
        f"(!({batched}) || stride({tensor}, 0) >= {extent}"
        f" && {extent} != stride({tensor}, {-1 - dimensions}))"
    )
    return " && ".join(conditions)


def channels_last_strides(sizes: str, dimensions: int, batched: str) -> str:
    """Strides of a list of sizes with channels last."""
    channels = f"{sizes}[{-1 - dimensions}]"
    strides = ["1"]
    for axis in range(dimensions):
        further = [f"{sizes}[{i - dimensions}]" for i in range(axis + 1, dimensions)]
        strides.append(" * ".join([channels, *further]))
    listed = ", ".join(strides)
    every = " * ".join([channels, *(f"{sizes}[{i - dimensions}]" for i in range(dimensions))])
    return f"({batched}) ? [{every}, {listed}] : [{listed}]"


def _pooled(dimensions: int) -> list[str]:
    """Output sizes of max pooling."""
    sizes = []
    names = window(dimensions, dilation=True)
    for axis, at in _axes(dimensions):
        if at < 0:
            continue
        letter = AXES[axis]
        kernel, step, padding, dilation = (
            f"({names[f'{name}_{letter}']})" for name in ("kernel", "step", "padding", "dilation")
        )
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
    for axis, at in _axes(dimensions):
        if at >= 0:
            letter = AXES[axis]
            kernel, padding = names[f"kernel_{letter}"], names[f"padding_{letter}"]
            conditions += [
                f"{kernel} > 0 && {padding} >= 0 && 2 * {padding} <= {kernel}",
                f"({names[f'step_{letter}']}) > 0 && {names[f'dilation_{letter}']} > 0",
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


def max_pool_rows() -> list[Row]:
    dtypes = (*FLOATS, *INTEGERS)
    rows = [max_pool_of_adjacent_channels()]
    for dimensions in (2, 3):
        name = f"max_pool{dimensions}d_with_indices"
        numbers = {
            **image("self", dimensions),
            **window(dimensions, dilation=True),
        }
        checked: dict = {"meta": f"aten::{name}"}
        checked_backward: dict = {"meta": f"aten::{name}_backward"}
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
                dtypes=dtypes,
                operands="grad_output indices",
                accepts={"indices": "int64"},
                results=results_backward,
                numbers={**numbers, **image("grad_output", dimensions, "out_")},
                family="pooling",
                **checked_backward,
            ),
        ]
    return rows


def average_pool_of_adjacent_channels() -> Row:
    """Average pooling of images in the memory format channels_last."""
    return templated(
        "avg_pool2d avg_pool2d.out",
        "pooling average_pool average_pool_channels",
        Launch(
            "average_pool_channels", "numel(out) > 0 ? size(out, 0) * size(out, 2) : 0", groups=True
        ),
        dtypes=(*FLOATS, *INTEGERS[-1:]),
        conditions=ADJACENT_CHANNELS,
        numbers={
            "channels": "size(self, 1)",
            **window(2),
            "divisor": "either(divisor_override, 0)",
            "padded": "count_include_pad",
            **image("self", 2),
            **image("out", 2, "out_"),
        },
        constants={"BACKWARD": "0"},
        strided="self out",
        meta="aten::avg_pool2d",
        family="pooling",
    )


def average_pool_rows() -> list[Row]:
    rows = [average_pool_of_adjacent_channels()]
    for dimensions in (2, 3):
        name = f"avg_pool{dimensions}d"
        numbers = {
            **window(dimensions),
            "divisor": "either(divisor_override, 0)",
            "padded": "count_include_pad",
        }
        rows += [
            templated(
                f"{name} {name}.out",
                "pooling average_pool",
                planes("average_pool", "out", dimensions),
                dtypes=(*FLOATS, *INTEGERS[-1:]),
                numbers={
                    **numbers,
                    **image("self", dimensions),
                    **image("out", dimensions, "out_"),
                },
                constants={"BACKWARD": "0"},
                meta=f"aten::{name}",
                family="pooling",
            ),
            templated(
                f"{name}_backward {name}_backward.grad_input",
                "pooling average_pool",
                planes("average_pool", "out", dimensions),
                dtypes=(*FLOATS, *INTEGERS[-1:]),
                operands="grad_output",
                numbers={
                    **numbers,
                    **image("self", dimensions),
                    **image("grad_output", dimensions, "out_"),
                },
                constants={"BACKWARD": "1"},
                meta=f"aten::{name}_backward",
                family="pooling",
            ),
        ]
    return rows


def adaptive_pool_rows() -> list[Row]:
    rows = []
    for dimensions in (2, 3):
        average, largest = f"adaptive_avg_pool{dimensions}d", f"adaptive_max_pool{dimensions}d"
        batched = f"dims(self) == {dimensions + 2}"
        some = " && ".join(f"size(self, {-1 - i}) > 0" for i in range(dimensions + 1))
        shape = [f"{batched} || dims(self) == {dimensions + 1}", some]
        out = f"each(output_size, {dimensions})"
        let = {"sizes_out": f"sizes(self)[:{-dimensions}] + {out}"}
        forward: dict[str, Any] = {"let": let}
        strides, strides_backward = "", ""
        if dimensions == 2:
            forward["let"] = {
                **let,
                "last": f"{batched} && ({channels_last('self', 2, '1')})",
            }
            strides = f"last ? ({channels_last_strides('sizes_out', 2, '1')}) : []"
            strides_backward = (
                f"{batched} && ({channels_last('self', 2, '1')}) ? "
                f"({channels_last_strides('sizes(self)', 2, '1')}) : []"
            )
        common: dict[str, Any] = {"family": "pooling"}
        in_overloads = f"_{average} {average}.out"
        backward_overloads = f"_{average}_backward" + (
            f" {average}_backward.grad_input" if dimensions == 3 else ""
        )
        rows += [
            templated(
                in_overloads,
                "pooling adaptive_pool",
                planes("adaptive_pool", "out", dimensions),
                dtypes=FLOATS,
                results=Result("out", sizes="sizes_out", strides=strides),
                numbers={**image("self", dimensions), **image("out", dimensions, "out_")},
                constants={"MAXIMUM": "0", "BACKWARD": "0"},
                conditions=[*shape, f"len(output_size) == {dimensions}"]
                + [f"output_size[{i}] >= 0" for i in range(dimensions)],
                **forward,
                **common,
            ),
            templated(
                backward_overloads,
                "pooling adaptive_pool",
                planes("adaptive_pool", "out", dimensions),
                dtypes=FLOATS,
                operands="grad_output",
                results=Result("out", sizes="sizes(self)", strides=strides_backward),
                numbers={**image("self", dimensions), **image("grad_output", dimensions, "out_")},
                constants={"MAXIMUM": "0", "BACKWARD": "1"},
                conditions=[
                    *shape,
                    "dims(grad_output) == dims(self)",
                    some.replace("self", "grad_output"),
                    f"sizes(grad_output)[:{-dimensions}] == sizes(self)[:{-dimensions}]",
                ],
                **common,
            ),
            templated(
                f"{largest} {largest}.out",
                "pooling adaptive_pool",
                planes("adaptive_pool", "out", dimensions),
                dtypes=FLOATS,
                results=[Result("out"), Result("indices", dtype="int64")],
                numbers={**image("self", dimensions), **image("out", dimensions, "out_")},
                constants={"MAXIMUM": "1", "BACKWARD": "0"},
                meta=f"aten::{largest}",
                **common,
            ),
            _scatter(
                f"{largest}_backward {largest}_backward.grad_input",
                "grad_output",
                dimensions,
                f"sizes(self)[{-dimensions}:]",
                Result("out", initial="0"),
                adds=True,
                meta=f"aten::{largest}_backward",
            ),
        ]
    return rows


def _scatter(
    overloads: str,
    values: str,
    dimensions: int,
    sizes: str,
    result: Result,
    *,
    adds: bool,
    **properties,
) -> Row:
    """A row that moves the `values` of planes to `indices` in planes of `sizes`."""
    text = template("plane_scatter").replace("source_load", f"{values}_load")
    return templated(
        overloads,
        None,
        Launch("plane_scatter", f"prod(sizes({values})[:{-dimensions}])"),
        source=text,
        dtypes=FLOATS,
        operands=f"{values} indices",
        accepts={"indices": "int64"},
        results=result,
        numbers={"inputs": f"prod(sizes({values})[{-dimensions}:])", "outputs": f"prod({sizes})"},
        constants={"ADDS": str(int(adds))},
        family="pooling",
        **properties,
    )


def fractional_max_pool_rows() -> list[Row]:
    rows = []
    for dimensions in (2, 3):
        name = f"fractional_max_pool{dimensions}d"
        kernel = window(dimensions)
        backward: dict = {"meta": f"aten::{name}_backward"}
        if dimensions == 3:  # has no Meta kernel in C++
            backward = {
                "conditions": [
                    "dims(self) == 4 || dims(self) == 5",
                    "dims(grad_output) == dims(self) && sizes(indices) == sizes(grad_output)",
                    "sizes(grad_output) == sizes(self)[:-3] + output_size",
                ]
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
                meta=f"aten::{name}",
                family="pooling",
            ),
            _scatter(
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
            _scatter(
                f"{name} {name}.out",
                "self",
                dimensions,
                "output_size",
                Result("out", sizes="sizes_out", strides=strides, initial="0"),
                adds=False,
                conditions=conditions,
                let={"sizes_out": sizes},
            )
        )
    return rows


def rows() -> list[Row]:
    """Every row."""
    return [
        *max_pool_rows(),
        *average_pool_rows(),
        *adaptive_pool_rows(),
        *fractional_max_pool_rows(),
        *max_unpool_rows(),
    ]
