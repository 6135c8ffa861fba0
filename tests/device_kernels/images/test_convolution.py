"""The engine `convolution` against CPU: sizes around its tiles, layouts, dtypes."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.conftest import ways_of
from tests.device_kernels.on_device import assert_raises_as_on_cpu, compare
from torch_outboard import fallback


def check(
    device: torch.device,
    input_sizes: tuple[int, ...],
    weight_sizes: tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    output_padding: int | tuple[int, ...] = 0,
    transposed: bool = False,
    groups: int = 1,
    bias: bool = True,
    dtype: torch.dtype = torch.float32,
    memory_format: torch.memory_format = torch.contiguous_format,
    tolerance: float = 1e-4,
) -> None:
    """Forward and all gradients on the device, by device kernels, against CPU."""
    count = len(input_sizes) - 2

    def each(value: int | tuple[int, ...]) -> list[int]:
        return [value] * count if isinstance(value, int) else list(value)

    channels = weight_sizes[1] * groups if transposed else weight_sizes[0]
    input = torch.randn(input_sizes).to(dtype).to(memory_format=memory_format)
    weight = torch.randn(weight_sizes).to(dtype)
    offsets = torch.randn(channels).to(dtype) if bias else None
    options = (
        each(stride), each(padding), each(dilation), transposed, each(output_padding), groups,
    )  # fmt: skip
    mask = [True, True, bias]
    sizes = [channels] if bias else None

    expected = torch.ops.aten.convolution(input, weight, offsets, *options)
    gradient = torch.randn_like(expected)
    gradients = torch.ops.aten.convolution_backward(gradient, input, weight, sizes, *options, mask)
    there = [None if t is None else t.to(device) for t in (input, weight, offsets, gradient)]
    with fallback.report() as report:
        actual = torch.ops.aten.convolution(*there[:3], *options)
        actual_gradients = torch.ops.aten.convolution_backward(
            there[3], there[0], there[1], sizes, *options, mask
        )
    ways = ways_of(report)
    assert ways["aten::convolution"] == ways["aten::convolution_backward"] == "device"
    near = {"rtol": tolerance, "atol": tolerance * 10}
    torch.testing.assert_close(actual.cpu(), expected, **near)
    for one, other in zip(actual_gradients, gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one.cpu(), other, **near)


GEOMETRIES = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "padding": 2},
    {"stride": (1, 3), "padding": (2, 0), "dilation": (2, 1)},
]


# One row of 19 elements is two vectors of 8 and a rest.
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_2d(device, geometry, groups):
    check(device, (2, 4, 11, 19), (6, 4 // groups, 3, 3), groups=groups, **geometry)
    sizes = (2, 4, 7, 9), (4, 6 // groups, 3, 2)
    check(device, *sizes, groups=groups, transposed=True, **geometry)


# Sizes of images and weights, options.
CASES = {
    "1d": ((3, 5, 50), (7, 5, 4), {"stride": 2, "padding": 3}),
    "1d, transposed": ((3, 6, 20), (6, 2, 4), {"groups": 3, "transposed": True, "stride": 2}),
    "3d": ((2, 3, 5, 6, 9), (4, 3, 2, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
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
    "channels last": (
        (2, 8, 9, 17), (12, 8, 3, 3), {"padding": 1, "memory_format": torch.channels_last}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_sizes(device, case):
    images, weights, options = CASES[case]
    check(device, images, weights, **options)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-7), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)],
)
def test_dtypes(device, dtype, tolerance):
    options = {"padding": 1, "stride": 2, "dtype": dtype, "tolerance": tolerance}
    check(device, (2, 8, 9, 17), (8, 8, 3, 3), **options)


@pytest.mark.parametrize("geometry", [{}, {"stride": 2, "dilation": 2}], ids=str)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_channels_of_one_filter_each(device, geometry, memory_format):
    options = {"groups": 6, "padding": 1, "memory_format": memory_format, **geometry}
    check(device, (3, 6, 17, 19), (6, 1, 3, 3), **options)
    check(device, (3, 6, 9, 7), (6, 2, 3, 3), transposed=True, **options)


@pytest.mark.parametrize("geometry", [{}, {"stride": 2}], ids=str)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_several_tiles_of_filters_and_positions(device, geometry, memory_format):
    options = {"padding": 1, "memory_format": memory_format, "tolerance": 5e-4, **geometry}
    check(device, (2, 40, 13, 11), (70, 40, 3, 3), **options)


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
    strides, values = [], []
    for place in ("cpu", device):
        there = x.to(place), weight.to(place)
        y = torch.ops.aten.convolution(*there, None, *options)
        results = torch.ops.aten.convolution_backward(
            y, *there, None, *options, [True, True, False]
        )
        strides.append([result.stride() for result in (y, *results[:2])])
        values.append([result.cpu() for result in (y, *results[:2])])
    assert strides[0] == strides[1]
    torch.testing.assert_close(*values, rtol=1e-4, atol=1e-3)


def test_strided_input(device):
    def run(x, weight):
        return torch.conv2d(x[:, ::2, 1::2, ::2], weight, padding=1)

    compare(device, run, torch.randn(2, 8, 20, 40), torch.randn(5, 4, 3, 3), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
def test_single_filter_that_was_cut_out_of_others(device, stride):
    # Contiguous, and the stride of its first dimension says nothing.
    def run(x, others):
        weight = others[:1, :2]
        assert weight.is_contiguous()
        assert weight.stride(0) == 54
        upwards = torch.conv_transpose2d(x[:, :1], weight, stride=stride)
        return torch.conv2d(x, weight, stride=stride), upwards

    compare(
        device, run, torch.randn(2, 2, 8, 8), torch.randn(4, 6, 3, 3), rtol=1e-4, atol=1e-4
    )  # fmt: skip


def test_only_what_the_mask_asks_for(device):
    def run(gradient, x, weight):
        options = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False])
        return torch.ops.aten.convolution_backward(gradient, x, weight, None, *options)

    sizes = (2, 4, 6, 6), (2, 3, 8, 8), (4, 3, 3, 3)
    compare(device, run, *(torch.randn(s) for s in sizes), rtol=1e-4, atol=1e-3)


def test_results_repeat(device):
    x, weight = torch.randn(4, 16, 20, 20).to(device), torch.randn(16, 16, 3, 3).to(device)
    once, again = (torch.conv2d(x, weight, padding=1).cpu() for _ in range(2))
    assert torch.equal(once, again)


def test_wrong_channels_raise_what_cpu_raises(device):
    arguments = torch.randn(1, 3, 8, 8), torch.randn(4, 5, 3, 3)
    assert_raises_as_on_cpu(device, torch.conv2d, *arguments)
