"""Convolutions by Winograd's algorithm, which processors take for kernels of 3 x 3, against CPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn.functional import conv2d

from tests.device_kernels.images.test_convolution import check
from tests.device_kernels.launches import is_processor, launched
from tests.device_kernels.on_device import compare

WINOGRAD = {"winograd_weights", "winograd_places", "winograd_tiles"}
GRADIENTS = {"winograd_places", "winograd_gradients", "winograd_kernels"}
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
}


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("case", CASES)
def test_cases(device, case):
    images, channels, filters, sizes, options = CASES[case]
    groups = options.get("groups", 1)
    shape = (images, channels * groups, *sizes)
    launched(device)
    check(device, shape, (filters, channels, 3, 3), tolerance=1e-3, **options)
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
def test_infinite_places_reach_gradients_of_their_channel_alone(device, sizes):
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


def test_gradients_that_do_not_lie_in_order(device):
    """Expanded, transposed and with gaps between rows."""

    def run(x, weight, one, turned, larger):
        gradients = one.expand(4, 32, 24, 22), turned.mT, larger[1:, 2:34, 3:27, 5:27]
        return [weight_gradient(x, gradient, weight, 1) for gradient in gradients]

    sizes = (4, 32, 24, 22), (32, 32, 3, 3), (4, 32, 1, 1), (4, 32, 22, 24), (5, 36, 30, 40)
    compare(device, run, *(torch.randn(s) for s in sizes), rtol=1e-4, atol=1e-2)


def test_more_images_than_are_transformed_at_a_time(device):
    # 8 MiB hold 6 of them.
    check(device, (17, 32, 50, 50), (32, 32, 3, 3), padding=1, tolerance=3e-3)


def test_infinite_places_reach_their_neighbours_alone(device):
    x, weight = torch.randn(2, 32, 20, 18), torch.rand(32, 32, 3, 3) + 1
    for place in ((0, 1, 0, 17), (1, 2, 19, 0), (0, 3, 19, 17)):
        x[place] = torch.inf
    expected = conv2d(x, weight, padding=1)
    actual = conv2d(x.to(device), weight.to(device), padding=1)
    # Sums of infinities of both signs are no numbers, as with other algorithms of this kind.
    assert torch.equal(actual.isfinite().cpu(), expected.isfinite())
    torch.testing.assert_close(
        actual.cpu()[expected.isfinite()], expected[expected.isfinite()], rtol=1e-4, atol=1e-3
    )


def test_views_of_images(device):
    """Rows with gaps, and images that are one and the same."""

    def run(x, one, weight):
        view = x[:, 2:38, 1:21, 3:27]
        return conv2d(view, weight, padding=1), conv2d(one.expand(4, 36, 20, 24), weight)

    sizes = (3, 40, 24, 30), (1, 36, 20, 24), (36, 36, 3, 3)
    compare(device, run, *(torch.randn(s) for s in sizes), rtol=1e-4, atol=1e-3)
