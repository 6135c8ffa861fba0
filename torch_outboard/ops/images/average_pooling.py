"""Average pooling."""

from __future__ import annotations

import torch

from torch_outboard.ops.images.pooling_windows import ADJACENT_CHANNELS, image, planes, window
from torch_outboard.ops.row import FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, templated


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


def rows() -> list[Row]:
    """Every row."""
    made = [average_pool_of_adjacent_channels()]
    for dimensions in (2, 3):
        # In three dimensions CPU's kernel takes no half precision.
        floats = FLOATS if dimensions == 2 else (torch.float32, torch.float64)
        name = f"avg_pool{dimensions}d"
        numbers = {
            **window(dimensions),
            "divisor": "either(divisor_override, 0)",
            "padded": "count_include_pad",
        }
        made += [
            templated(
                f"{name} {name}.out",
                "pooling average_pool",
                planes("average_pool", "out", dimensions),
                dtypes=(*floats, torch.int64),
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
                dtypes=(*floats, torch.int64),
                operands="grad_output",
                numbers={
                    **numbers,
                    **image("self", dimensions),
                    **image("grad_output", dimensions, "out_"),
                },
                constants={"BACKWARD": "1"},
                requires={"self": "dtype of grad_output"},
                meta=f"aten::{name}_backward",
                family="pooling",
            ),
        ]
    return made
