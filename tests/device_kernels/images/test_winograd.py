"""Convolutions by Winograd's algorithm, which processors take for kernels of 3 x 3, against CPU."""

from functools import partial

import pytest
import torch
from torch.nn.functional import conv2d

from tests.device_kernels.images.test_convolution import check
from tests.device_kernels.launches import is_processor, launched
from tests.device_kernels.on_device import compare

WINOGRAD = {"winograd_weights", "winograd_inputs", "winograd_tiles"}
GRADIENTS = {"winograd_inputs", "winograd_gradients", "winograd_kernels"}
# Images, channels, filters, height and width, options.
CASES = {
    "even sizes": (4, 32, 48, (20, 36), {"padding": 1}),
    "odd sizes": (3, 33, 35, (19, 31), {"padding": 1, "bias": False}),
    "no padding": (3, 40, 32, (21, 26), {}),
    "as much padding as there can be": (2, 32, 40, (15, 33), {"padding": 2}),
    "padding of one dimension": (2, 32, 40, (24, 33), {"padding": (0, 2)}),
    "rows shorter than a vector": (9, 64, 64, (7, 7), {"padding": 1}),
    "rows of a tile": (4, 32, 32, (120, 2), {"padding": 1}),
    "one row of tiles": (4, 32, 32, (2, 121), {"padding": 1}),
    "groups": (4, 32, 80, (20, 17), {"padding": 1, "groups": 2}),
    # 8 MiB hold 6 of them.
    "more images than are transformed at a time": (
        17, 32, 32, (50, 50), {"padding": 1, "tolerance": 3e-3}
    ),
}  # fmt: skip


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("case", CASES)
def test_cases(device, case):
    images, channels, filters, sizes, options = CASES[case]
    groups = options.get("groups", 1)
    shape = (images, channels * groups, *sizes)
    launched(device)
    check(device, shape, (filters, channels, 3, 3), **{"tolerance": 1e-3, **options})
    processor = is_processor(device)
    kernels = launched(device)
    assert kernels >= WINOGRAD if processor else "winograd_tiles" not in kernels
    assert kernels >= GRADIENTS if processor and groups == 1 else not kernels & GRADIENTS - WINOGRAD


def weight_gradient(x, gradient, weight, padding=0):
    options = ([1, 1], [padding] * 2, [1, 1], False, [0, 0], 1, [False, True, False])
    return torch.ops.aten.convolution_backward(gradient, x, weight, None, *options)[1]


def test_errors_are_few_roundings(device):
    """Of sums of 4,608 products and over 6,272 positions, the largest, against double precision."""
    for function, *sizes in (
        (partial(conv2d, padding=1), (4, 512, 14, 14), (64, 512, 3, 3)),
        (partial(weight_gradient, padding=1), (8, 40, 28, 28), (8, 48, 28, 28), (48, 40, 3, 3)),
    ):
        operands = [torch.randn(s) for s in sizes]
        expected = function(*(x.double() for x in operands))
        there = function(*(x.to(device) for x in operands)).double().cpu()
        assert (there - expected).abs().max() / expected.abs().max() < 4e-6


@pytest.mark.parametrize("sizes", [(17, 19), (20, 40)])
def test_infinite_elements_reach_gradients_of_their_channel_alone(device, sizes):
    """Also the first and the last ones, which lie next to other channels."""
    x, gradient = torch.randn(6, 34, *sizes), torch.randn(6, 36, sizes[0] - 2, sizes[1] - 2)
    x[0, 5, 0, 0] = x[-1, 7, -1, -1] = gradient[0, 9, 0, 0] = gradient[-1, 11, -1, -1] = torch.inf
    there = weight_gradient(x.to(device), gradient.to(device), torch.empty(36, 34, 3, 3).to(device))
    expected = weight_gradient(x, gradient, torch.empty(36, 34, 3, 3))
    others = torch.ones(36, 34, dtype=torch.bool)
    others[[9, 11]] = others[:, [5, 7]] = False
    assert not expected[[9, 11]].isfinite().all()
    assert torch.equal(there.isfinite().flatten(2).all(2).cpu(), others)
    near = {"rtol": 1e-4, "atol": 1e-2}
    torch.testing.assert_close(there.cpu()[others], expected[others], **near)


def test_views_of_images(device):
    """Rows with gaps, and images that are one and the same."""
    gaps = torch.randn(3, 40, 24, 30)[:, 2:38, 1:21, 3:27]
    same = torch.randn(1, 36, 20, 24).expand(4, 36, 20, 24)
    for padding, x in ((1, gaps), (0, same)):
        weight = torch.randn(36, 36, 3, 3)
        compare(device, partial(conv2d, padding=padding), x, weight, rtol=1e-4, atol=1e-3)
