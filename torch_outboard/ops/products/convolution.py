"""Convolution: rows of the engine in csrc/device_kernels/convolution/convolution.cpp."""

from __future__ import annotations

import torch

from torch_outboard.ops.row import FLOATS, INTEGERS, Row, dtype_bits, qualified, template


def convolution(overloads: str, *, backward: bool) -> Row:
    """A row; the overloads have the arguments of `convolution` or of its backward."""
    return {
        "engine": "convolution",
        "overloads": qualified(overloads),
        "backward": backward,
        "dtypes": dtype_bits((*FLOATS, *INTEGERS)),
        # CPU takes one of the integers everywhere.
        "plain_dtypes": dtype_bits(dtype for dtype in INTEGERS if dtype != torch.int64),
        "source": template("matrix_product") + template("convolution"),
        "planes": template("plane_convolution") + template("winograd_convolution"),
        "groups": template("group_tiles") + template("matrix_unit_tiles"),
    }


def rows() -> list[Row]:
    """Every row."""
    return [
        convolution("convolution convolution_overrideable", backward=False),
        convolution("convolution_backward convolution_backward_overrideable", backward=True),
    ]
