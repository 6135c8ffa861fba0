"""Convolution: definitions for csrc/device_kernels/convolution/convolution.cpp."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.definition import FLOATS, INTEGERS, Definition, dtype_bits, qualified
from torch_outboard.ops.products.sources import group_source, padded_source, patch_source


def convolution(overloads: str, *, backward: bool) -> Definition:
    """An operator definition; overloads have the arguments of `convolution` or its backward."""
    properties: dict[str, Any] = {
        "backward": backward,
        "dtypes": dtype_bits((*FLOATS, *INTEGERS)),
        # As on CPU, only int64 is served with transposition or dilation.
        "plain_dtypes": dtype_bits(dtype for dtype in INTEGERS if dtype != torch.int64),
        "source": patch_source(),
        "padded": padded_source(),
        "groups": group_source(),
    }
    return Definition("convolution", qualified(overloads), properties)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        convolution("convolution convolution_overrideable", backward=False),
        convolution("convolution_backward convolution_backward_overrideable", backward=True),
    ]
