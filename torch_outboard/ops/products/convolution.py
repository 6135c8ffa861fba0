"""Convolution: rows of the engine in csrc/device_kernels/convolution/convolution.cpp."""

from __future__ import annotations

import torch

from torch_outboard.ops.products.texts import group_text, patch_text, plane_text
from torch_outboard.ops.row import FLOATS, INTEGERS, Row, dtype_bits, qualified


def convolution(overloads: str, *, backward: bool) -> Row:
    """A row; the overloads have the arguments of `convolution` or of its backward."""
    return {
        "engine": "convolution",
        "overloads": qualified(overloads),
        "backward": backward,
        "dtypes": dtype_bits((*FLOATS, *INTEGERS)),
        # CPU takes one of the integers everywhere.
        "plain_dtypes": dtype_bits(dtype for dtype in INTEGERS if dtype != torch.int64),
        "source": patch_text(),
        "planes": plane_text(),
        "groups": group_text(),
    }


def rows() -> list[Row]:
    """Every row."""
    return [
        convolution("convolution convolution_overrideable", backward=False),
        convolution("convolution_backward convolution_backward_overrideable", backward=True),
    ]
