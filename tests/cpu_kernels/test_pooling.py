"""Max pooling of contiguous images has a kernel of its own: equal to CPU's in every bit."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn import functional

# kernel, stride, padding, dilation, ceil mode; None: the kernel's size
WINDOWS = [
    (2, None, 0, 1, False),
    (2, 2, 0, 1, True),
    (3, 2, 1, 1, False),
    (3, 1, 1, 1, False),
    (3, 3, 1, 2, True),
    ((2, 5), (3, 1), (1, 2), (2, 1), True),
    ((3, 1), (1, 4), (1, 0), (3, 1), False),
    (5, 4, 2, 1, True),
    (7, 1, 3, 2, False),
]
SHAPES = [(2, 3, 17, 23), (1, 64, 32), (1, 1, 7, 300), (4, 7, 13, 13)]


def compare(host: torch.Tensor, device: torch.device, window: tuple) -> None:
    kernel, stride, padding, dilation, ceil_mode = window
    arguments = (kernel, stride, padding, dilation, ceil_mode, True)
    try:
        expected = functional.max_pool2d(host, *arguments)
    except RuntimeError as error:
        with pytest.raises(type(error)):
            functional.max_pool2d(host.to(device), *arguments)
        return
    actual = functional.max_pool2d(host.to(device), *arguments)
    for want, got in zip(expected, actual, strict=True):
        assert got.device.type == device.type
        assert got.stride() == want.stride()
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("shape", "window"), [*itertools.product(SHAPES, WINDOWS)])
def test_values_and_indices(device: torch.device, shape: tuple, window: tuple) -> None:
    torch.manual_seed(0)
    # Few different values: ties go to the first.
    compare(torch.randint(-3, 3, shape).float(), device, window)
    compare(torch.randn(shape), device, window)


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("window", WINDOWS)
def test_values_that_are_no_numbers(device: torch.device, value: float, window: tuple) -> None:
    torch.manual_seed(0)
    host = torch.randn(2, 4, 19, 21)
    compare(torch.where(torch.rand_like(host) < 0.4, value, host), device, window)
    compare(torch.full_like(host, value), device, window)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_other_dtypes_and_layouts_take_the_boxed_way(
    device: torch.device, dtype: torch.dtype
) -> None:
    host = torch.randint(-50, 50, (2, 3, 12, 14)).to(dtype)
    compare(host, device, (3, 2, 1, 1, False))
    compare(host.float().transpose(2, 3), device, (3, 2, 1, 1, False))
    compare(host.float().to(memory_format=torch.channels_last), device, (3, 2, 1, 1, False))


@pytest.mark.parametrize(
    "window",
    [(0, 1, 0, 1, False), (3, 0, 0, 1, False), (3, 1, 2, 1, False), (40, 1, 0, 1, False)],
)
def test_wrong_windows_raise_as_on_cpu(device: torch.device, window: tuple) -> None:
    compare(torch.randn(1, 2, 8, 8), device, window)


def test_large_enough_for_several_threads(device: torch.device) -> None:
    compare(torch.randn(8, 64, 56, 56), device, (3, 2, 1, 1, False))
