"""Pooling, interpolation and sampling at grid points by device kernels, against CPU."""

import pytest
import torch
from torch.nn import functional
from torch.nn.functional import grid_sample, interpolate
from torch.testing import assert_close

from tests.device_kernels.on_device import compare, with_gradients


def check(device, pool, operand):
    compare(device, with_gradients(pool), operand.requires_grad_(), check_stride=True)


def test_cut_off_windows(device):
    """Nearly all of the database's samples of avg_pool2d have a divisor of their own, which hides
    what the last windows are divided by.
    """
    x = torch.randn(2, 3, 7, 9)
    for count_padding in (False, True):
        check(device, lambda x, c=count_padding: functional.avg_pool2d(x, 3, 2, 1, True, c), x)
    check(device, lambda x: functional.avg_pool3d(x, 3, 2, 1, True), torch.randn(2, 3, 7, 9, 6))


def test_channels_last(device):
    operand = torch.randn(2, 35, 7, 9).to(memory_format=torch.channels_last)
    check(device, lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), operand)
    check(device, lambda x: functional.adaptive_avg_pool2d(x, 3), operand)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), ((2, 4), (1, 3), (0, 2), 1)],
)
def test_wide_images(device, layout, kernel, stride, padding, dilation):
    """Wider than what a processor takes at once, by windows that overlap or leave gaps."""
    operand = torch.randn(2, 34, 9, 75).to(memory_format=layout)
    operand[0, 1, 3, 40] = float("nan")
    check(device, lambda x: functional.max_pool2d(x, kernel, stride, padding, dilation), operand)


def test_largest_is_nan_or_the_last_of_equals(device):
    operand = torch.zeros(1, 4, 6)
    operand[0, 1, 1] = operand[0, 0, 4] = float("nan")
    compare(device, lambda x: torch.ops.aten.max_pool2d_with_indices(x, [2, 2]), operand)


# ---- interpolation


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [
        ("bilinear", {"size": (11, 3)}),
        ("bicubic", {"scale_factor": (0.6, 2.3), "antialias": True}),
        ("bilinear", {"size": (3, 20), "antialias": True}),
        ("bicubic", {"size": (11, 3), "align_corners": True}),
        ("bicubic", {"size": (9, 5)}),
        ("bilinear", {"size": (9, 7)}),
    ],
    ids=str,
)
def test_bytes_are_those_of_cpu(device, mode, arguments):
    for layout in (torch.contiguous_format, torch.channels_last):
        for channels in (3, 6):
            operand = torch.randint(0, 256, (2, channels, 9, 7), dtype=torch.uint8)
            operand = operand.contiguous(memory_format=layout)
            run = lambda x: interpolate(x, mode=mode, **arguments)  # noqa: E731
            compare(device, run, operand, support=frozenset(), rtol=0, atol=0, check_stride=True)


# ---- grids


NOT_FINITE = [float("nan"), float("inf"), -float("inf"), 1e30, -50.0]


@pytest.mark.parametrize(
    ("dimensions", "mode"),
    [(2, "bilinear"), (2, "bicubic"), (2, "nearest"), (3, "bilinear"), (3, "nearest")],
)
def test_coordinates_that_are_not_finite(device, dimensions, mode):
    """Values, and gradients where CPU computes them: there some write outside of their memory."""
    image = torch.arange(1.0, 1 + 2**dimensions).reshape(1, 1, *[2] * dimensions)
    grid = torch.zeros(len(NOT_FINITE), dimensions, dimensions)
    for i, value in enumerate(NOT_FINITE):
        grid[i].fill_diagonal_(value)
    grid = grid.reshape(1, *[1] * (dimensions - 1), -1, dimensions)
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            sample = lambda x, g, *how: grid_sample(x, g, mode, *how)  # noqa: E731
            compare(device, sample, image, grid, padding, corners)
    if dimensions == 2:
        sample = with_gradients(lambda x, g: grid_sample(x, g, mode, "zeros", False))
        compare(device, sample, image.requires_grad_(), grid.requires_grad_())


def test_grids_of_bfloat16(device):
    """Coordinates are computed in float32, unlike CPU's."""
    image, grid = torch.randn(1, 2, 5, 6).bfloat16(), torch.rand(1, 4, 3, 2).bfloat16() * 2 - 1
    results = []
    for location, dtype in (("cpu", torch.float32), (device, torch.bfloat16)):
        leaves = [t.to(location, dtype).requires_grad_() for t in (image, grid)]
        result = grid_sample(*leaves, align_corners=False)
        weights = torch.arange(result.numel()).reshape(result.shape) % 8
        results.append([result, *torch.autograd.grad(result, leaves, weights.to(result))])
    for want, got in zip(*results, strict=True):
        assert_close(got.cpu(), want.bfloat16())
