"""Max pooling of contiguous images has a separate kernel: it takes the elements that CPU does."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from tests.device_kernels.on_device import difference

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
    assert difference(device, lambda x: functional.max_pool2d(x, *arguments), host) is None, window


def test_values_and_indices(device: torch.device) -> None:
    torch.manual_seed(0)
    for shape, window in itertools.product(SHAPES, WINDOWS):
        # Few different values: ties go to the first.
        compare(torch.randint(-3, 3, shape).float(), device, window)
        compare(torch.randn(shape), device, window)
    large = torch.randn(8, 64, 56, 56)  # enough for several threads
    compare(large, device, (3, 2, 1, 1, False))


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
def test_values_that_are_no_numbers(device: torch.device, value: float) -> None:
    torch.manual_seed(0)
    host = torch.randn(2, 4, 19, 21)
    for window in WINDOWS:
        compare(torch.where(torch.rand_like(host) < 0.4, value, host), device, window)
        compare(torch.full_like(host, value), device, window)


def test_other_dtypes_and_layouts_run_boxed(device: torch.device) -> None:
    window = (3, 2, 1, 1, False)
    host = torch.randint(-50, 50, (2, 3, 12, 14))
    for dtype in (torch.float64, torch.bfloat16, torch.int64):
        compare(host.to(dtype), device, window)
    compare(host.float().transpose(2, 3), device, window)
    compare(host.float().to(memory_format=torch.channels_last), device, window)


def test_wrong_windows_raise_as_on_cpu(device: torch.device) -> None:
    for window in ((0, 1, 0, 1), (3, 0, 0, 1), (3, 1, 2, 1), (40, 1, 0, 1)):
        compare(torch.randn(1, 2, 8, 8), device, (*window, False))
