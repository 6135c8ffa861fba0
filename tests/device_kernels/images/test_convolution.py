"""Convolutions against CPU: sizes around its tiles, and layouts."""

from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.device_kernels.on_device import compare


def check(
    device: torch.device,
    input_sizes: tuple[int, ...],
    weight_sizes: tuple[int, ...],
    *,
    transposed: bool = False,
    bias: bool = True,
    dtype: torch.dtype = torch.float32,
    memory_format: torch.memory_format = torch.contiguous_format,
    tolerance: float = 1e-4,
    **options: Any,
) -> None:
    """Forward and all gradients on the device, by device kernels, against CPU."""
    channels = weight_sizes[1] * options.get("groups", 1) if transposed else weight_sizes[0]
    sizes = [input_sizes, weight_sizes, *([(channels,)] if bias else [])]
    leaves = [torch.randn(each).to(dtype) for each in sizes]
    leaves[0] = leaves[0].to(memory_format=memory_format)
    name = f"conv{'_transpose' if transposed else ''}{len(input_sizes) - 2}d"
    convolution = partial(getattr(functional, name), **options)
    gradient = torch.randn_like(convolution(*leaves))

    def run(gradient, *leaves):
        result = convolution(*leaves)
        return result, *torch.autograd.grad(result, leaves, gradient)

    near = {"rtol": tolerance, "atol": tolerance * 10}
    ran = compare(device, run, gradient, *(leaf.requires_grad_() for leaf in leaves), **near)
    assert {"aten::convolution", "aten::convolution_backward"} <= ran


LAST = {"memory_format": torch.channels_last}
# Sizes of images and weights, options. Small images of every dtype are the scoreboard's.
CASES = {
    "pointwise": ((2, 40, 9, 9), (30, 40, 1, 1), {}),
    "two filters for each channel": (
        (2, 10, 12, 12), (20, 1, 3, 3), {"groups": 10, "padding": 1, "bias": False}
    ),
    "images smaller than a vector": ((9, 16, 2, 2), (20, 16, 3, 3), {"padding": 1}),
    "images of one element": ((5, 4, 1, 1), (3, 4, 1, 1), {}),
    # 4 MiB hold 1024 columns of a depth of 1024 floats.
    "more columns than are packed at a time": (
        (2, 64, 40, 40), (8, 64, 4, 4), {"padding": 1, "tolerance": 1e-3}
    ),
    "channels last": ((2, 8, 9, 17), (12, 8, 3, 3), {"padding": 1, **LAST}),
    "several tiles": ((2, 40, 13, 11), (70, 40, 3, 3), {"padding": 1, "tolerance": 5e-4}),
    "several tiles, stride 2": (
        (2, 40, 13, 11), (70, 40, 3, 3), {"padding": 1, "stride": 2, "tolerance": 5e-4}
    ),
    "several tiles, channels last": (
        (2, 40, 13, 11), (70, 40, 3, 3), {"padding": 1, "tolerance": 5e-4, **LAST}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_sizes(device, case):
    images, weights, options = CASES[case]
    check(device, images, weights, **options)


@pytest.mark.parametrize("geometry", [{}, {"stride": 2, "dilation": 2}], ids=str)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_channels_of_one_filter_each(device, geometry, memory_format):
    options = {"groups": 6, "padding": 1, "memory_format": memory_format, **geometry}
    check(device, (3, 6, 17, 19), (6, 1, 3, 3), **options)
    check(device, (3, 6, 9, 7), (6, 2, 3, 3), transposed=True, **options)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("last", ["input", "weight", "both", "neither"])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_layouts_of_results_are_those_of_cpu(device, dimensions, last, transposed):
    """Where channels are last in the input or in the weight, they are last in all results."""
    layout = torch.channels_last if dimensions == 2 else torch.channels_last_3d
    x, weight = torch.randn(2, 4, *[6] * dimensions), torch.randn(4, 4, *[3] * dimensions)
    if last in ("input", "both"):
        x = x.contiguous(memory_format=layout)
    if last in ("weight", "both"):
        weight = weight.contiguous(memory_format=layout)
    options = ([2] * dimensions, [1] * dimensions, [1] * dimensions)
    options = (*options, transposed, [0] * dimensions, 1)

    def run(x, weight):
        y = torch.ops.aten.convolution(x, weight, None, *options)
        backward = torch.ops.aten.convolution_backward
        return y, *backward(y, x, weight, None, *options, [True, True, False])[:2]

    compare(device, run, x, weight, rtol=1e-4, atol=1e-3, check_stride=True)


def test_single_filter_that_was_cut_out_of_others(device):
    # Contiguous, and the stride of its first dimension says nothing.
    x, weight = torch.randn(2, 2, 8, 8), torch.randn(4, 6, 3, 3)[:1, :2]
    assert weight.is_contiguous()
    assert weight.stride(0) == 54
    near = {"rtol": 1e-4, "atol": 1e-4}
    for stride in (1, 2):
        compare(device, partial(torch.conv2d, stride=stride), x, weight, **near)
        compare(device, partial(torch.conv_transpose2d, stride=stride), x[:, :1], weight, **near)
