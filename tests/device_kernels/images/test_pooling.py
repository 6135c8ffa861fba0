"""Pooling by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback

# Nearly all of the database's samples of avg_pool2d have a divisor of their own, which hides what
# the last windows are divided by.
CASES = {
    "max_pool2d": lambda x: functional.max_pool2d(x, (3, 2), (2, 1), 1, ceil_mode=True),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 3, 2, 1, True, False),
    "avg_pool2d with padding": lambda x: functional.avg_pool2d(x, 3, 2, 1, True),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, (3, 4)),
    "adaptive_max_pool2d": lambda x: functional.adaptive_max_pool2d(x, (3, 4)),
    "avg_pool3d": lambda x: functional.avg_pool3d(x, 3, 2, 1, True),
}


def gradient_of(call, operand):
    leaf = operand.detach().requires_grad_()
    result = call(leaf)
    weights = torch.arange(result.numel(), dtype=result.dtype).reshape(result.shape)
    (gradient,) = torch.autograd.grad(result, leaf, weights.to(result.device))
    return result.detach(), gradient


def check(device, pool, operand):
    """Result, gradient and the strides of both."""
    expected = gradient_of(pool, operand)
    with fallback.report() as report:
        actual = gradient_of(pool, operand.to(device))
    for want, got in zip(expected, actual, strict=True):
        assert_close(got.cpu(), want, equal_nan=True, check_stride=True)
    ways = {op: way for op, way in ways_of(report).items() if "pool" in op}
    assert ways
    assert set(ways.values()) == {"device"}, ways


def test_cut_off_windows(device):
    for name, pool in CASES.items():
        sizes = (2, 3, 7, 9, 6) if "3d" in name else (2, 3, 7, 9)
        check(device, pool, torch.randn(sizes))


def test_channels_last(device):
    operand = torch.randn(2, 35, 7, 9).to(memory_format=torch.channels_last)
    for pool in (
        lambda x: functional.max_pool2d(x, 2),
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: functional.adaptive_avg_pool2d(x, 3),
    ):
        check(device, pool, operand)


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
    expected = torch.ops.aten.max_pool2d_with_indices(operand, [2, 2])
    actual = torch.ops.aten.max_pool2d_with_indices(operand.to(device), [2, 2])
    assert_close(actual[0].cpu(), expected[0], equal_nan=True)
    assert_close(actual[1].cpu(), expected[1])
