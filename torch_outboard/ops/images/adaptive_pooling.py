"""Average and max pooling to a given size."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.images.plane_scatter import plane_scatter
from torch_outboard.ops.images.pooling_windows import (
    channels_last,
    channels_last_strides,
    image,
    planes,
)
from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Result, templated


def rows() -> list[Row]:
    """Every row."""
    made = []
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
        made += [
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
                requires={"self": "dtype of grad_output"},
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
            plane_scatter(
                f"{largest}_backward {largest}_backward.grad_input",
                "grad_output",
                dimensions,
                f"sizes(self)[{-dimensions}:]",
                Result("out", initial="0"),
                adds=True,
                conditions=["numel(self) > 0 || numel(grad_output) == 0"],
                meta=f"aten::{largest}_backward",
            ),
        ]
    return made
