"""Pooling by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from torch_outboard import fallback

CASES = {
    "max_pool1d": lambda x: functional.max_pool1d(x[0, :, :, 0], 3, 2, 1),
    "max_pool2d": lambda x: functional.max_pool2d(x, (3, 2), (2, 1), 1, ceil_mode=True),
    "max_pool2d dilated": lambda x: functional.max_pool2d(x, 2, 1, 1, dilation=3),
    "max_pool3d": lambda x: functional.max_pool3d(x, 2, 1, 1),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 3, 2, 1, True, False),
    "avg_pool2d with divisor": lambda x: functional.avg_pool2d(x, 2, divisor_override=3),
    "avg_pool3d": lambda x: functional.avg_pool3d(x, 3, 2, 1, True),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, (3, 4)),
    "adaptive_avg_pool3d": lambda x: functional.adaptive_avg_pool3d(x, (2, 3, 4)),
    "adaptive_max_pool2d": lambda x: functional.adaptive_max_pool2d(x, (3, 4)),
    "adaptive_max_pool3d": lambda x: functional.adaptive_max_pool3d(x, (2, 3, 4)),
}
POOLING = ("pool", "gather")


def gradient_of(call, operand):
    leaf = operand.detach().requires_grad_()
    result = call(leaf)
    weights = torch.arange(result.numel(), dtype=result.dtype).reshape(result.shape)
    (gradient,) = torch.autograd.grad(result, leaf, weights.to(result.device))
    return result.detach(), gradient


@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward(device, name):
    torch.manual_seed(0)
    operand = torch.randn(2, 3, 7, 9, 6)
    if "1d" in name or "2d" in name:
        operand = operand[..., 0]
    expected = gradient_of(CASES[name], operand)
    with fallback.report() as report:
        actual = gradient_of(CASES[name], operand.to(device))
    for want, got in zip(expected, actual, strict=True):
        assert_close(got.cpu(), want)
        assert got.stride() == want.stride()
    ways = {row.op: row.way for row in report.rows if any(word in row.op for word in POOLING)}
    assert ways
    assert set(ways.values()) == {"device"}, ways


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_dtypes(device, dtype):
    operand = (torch.randn(2, 3, 7, 9) * 9).to(dtype)
    for call in (
        lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True),
        lambda x: functional.avg_pool2d(x, 2),
    ):
        assert_close(call(operand.to(device)), call(operand), check_device=False)


def test_channels_last(device):
    operand = torch.randn(2, 35, 7, 9).to(memory_format=torch.channels_last)
    for call in (
        lambda x: functional.max_pool2d(x, 2),
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: functional.adaptive_avg_pool2d(x, 3),
    ):
        result = call(operand.to(device))
        assert_close(result.cpu(), call(operand))
        assert result.stride() == call(operand).stride()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), ((2, 4), (1, 3), (0, 2), 1)],
)
def test_wide_images(device, layout, kernel, stride, padding, dilation):
    """Wider than what a processor takes at once, by windows that overlap or leave gaps."""
    torch.manual_seed(0)
    operand = torch.randn(2, 34, 9, 75).to(memory_format=layout)
    operand[0, 1, 3, 40] = float("nan")

    def pool(x):
        return functional.max_pool2d(x, kernel, stride, padding, dilation)

    expected, actual = gradient_of(pool, operand), gradient_of(pool, operand.to(device))
    for want, got in zip(expected, actual, strict=True):
        assert_close(got.cpu(), want, equal_nan=True)
        assert got.stride() == want.stride()


def test_largest_is_nan_or_the_last_of_equals(device):
    operand = torch.zeros(1, 4, 6)
    operand[0, 1, 1] = operand[0, 0, 4] = float("nan")
    expected = torch.ops.aten.max_pool2d_with_indices(operand, [2, 2])
    actual = torch.ops.aten.max_pool2d_with_indices(operand.to(device), [2, 2])
    assert_close(actual[0].cpu(), expected[0], equal_nan=True)
    assert_close(actual[1].cpu(), expected[1])


@pytest.mark.parametrize("dimensions", [2, 3])
def test_fractional(device, dimensions):
    torch.manual_seed(0)
    operand = torch.randn(2, 3, 7, 9, 8) if dimensions == 3 else torch.randn(2, 3, 7, 9)
    samples = torch.rand(2, 3, dimensions)
    call = getattr(torch.ops.aten, f"fractional_max_pool{dimensions}d")

    def pool(x):
        return call(x, [2] * dimensions, [4] * dimensions, samples.to(x.device))[0]

    for got, want in zip(
        gradient_of(pool, operand.to(device)), gradient_of(pool, operand), strict=True
    ):
        assert_close(got.cpu(), want)


def test_unpool(device):
    operand = torch.randn(2, 3, 6, 8)
    values, places = functional.max_pool2d(operand, 2, return_indices=True)
    with fallback.report() as report:
        result = functional.max_unpool2d(values.to(device), places.to(device), 2)
    assert_close(result.cpu(), functional.max_unpool2d(values, places, 2))
    assert {row.op: row.way for row in report.rows}["aten::max_unpool2d"] == "device"


def test_outputs_of_a_wrong_dtype_raise_as_on_cpu(device):
    out = torch.empty(1, 3, 3, dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got int"):
        torch._C._nn.avg_pool2d(torch.ones(1, 6, 6, device=device), 2, out=out)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "adaptive_avg_pool3d"])
def test_gradcheck(device, name):
    torch.manual_seed(0)
    shape = (1, 2, 4, 5, 6) if "3d" in name else (1, 2, 5, 6)
    leaf = torch.randn(shape, dtype=torch.float64).to(device).requires_grad_()
    assert torch.autograd.gradcheck(CASES[name], [leaf])
