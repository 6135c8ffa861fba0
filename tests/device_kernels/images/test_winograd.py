"""Convolutions by Winograd's algorithm, which processors take for kernels of 3 x 3, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d

from tests.device_kernels.images.test_convolution import check
from tests.device_kernels.images.test_plane_convolution import launched, timed
from torch_outboard import _C

__all__ = ["timed"]
WINOGRAD = {"winograd_weights", "winograd_places", "winograd_tiles"}
# Images, channels, filters, height and width, options.
CASES = {
    "even sizes": (4, 32, 48, (20, 36), {"padding": 1}),
    "odd sizes": (3, 33, 35, (19, 31), {"padding": 1}),
    "no padding": (3, 40, 32, (21, 26), {}),
    "as much padding as there can be": (2, 32, 40, (15, 33), {"padding": 2}),
    "padding of one dimension": (2, 32, 40, (24, 33), {"padding": (0, 2)}),
    "rows shorter than a vector": (9, 64, 64, (7, 7), {"padding": 1}),
    "rows of a tile": (4, 32, 32, (120, 2), {"padding": 1}),
    "one row of tiles": (4, 32, 32, (2, 121), {"padding": 1}),
    "groups": (4, 32, 80, (20, 17), {"padding": 1, "groups": 2}),
}


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_cases(device, case, bias):
    images, channels, filters, sizes, options = CASES[case]
    groups = options.get("groups", 1)
    shape = (images, channels * groups, *sizes)
    launched(device)
    check(device, shape, (filters, channels, 3, 3), bias=bias, tolerance=1e-3, **options)
    processor = _C.device_properties(device.index).kind == "cpu"
    assert launched(device) >= WINOGRAD if processor else "winograd_tiles" not in launched(device)


@pytest.mark.usefixtures("timed")
def test_what_others_do(device):
    """Few channels or tiles, steps, dilation, other kernels and dtypes, another order of images."""
    x, weight = torch.randn(2, 32, 20, 20, device=device), torch.randn(32, 32, 3, 3, device=device)
    launched(device)
    conv2d(x[:, :16], weight[:, :16])
    conv2d(x[:1, :, :3, :3], weight)
    conv2d(x, weight, stride=2)
    conv2d(x, weight, dilation=2)
    conv2d(x, weight, padding=3).sum()
    conv2d(x, weight[..., :2])
    conv2d(x.double(), weight.double())
    conv2d(x.contiguous(memory_format=torch.channels_last), weight)
    assert not launched(device) & WINOGRAD


def test_errors_are_few_roundings(device):
    """Of sums of 4,608 products, the largest error against double precision."""
    x, weight = torch.randn(4, 512, 14, 14), torch.randn(64, 512, 3, 3)
    expected = conv2d(x.double(), weight.double(), padding=1)
    for one in (x, weight):
        one.requires_grad_()
    there = conv2d(x.to(device), weight.to(device), padding=1).double().cpu()
    error = (there - expected).abs().max() / expected.abs().max()
    assert error < 4e-6


def test_more_images_than_are_transformed_at_a_time(device):
    # 16 MiB hold 13 of them.
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
    """Rows with gaps, and an output whose channels are not neighbours."""
    x, weight = torch.randn(3, 40, 24, 30), torch.randn(36, 36, 3, 3)
    view = x[:, 2:38, 1:21, 3:27]
    there = x.to(device)[:, 2:38, 1:21, 3:27]
    torch.testing.assert_close(
        conv2d(there, weight.to(device), padding=1).cpu(),
        conv2d(view, weight, padding=1),
        rtol=1e-4,
        atol=1e-3,
    )
    expanded = torch.randn(1, 36, 20, 24).expand(4, 36, 20, 24)
    torch.testing.assert_close(
        conv2d(expanded[:1].to(device).expand(4, 36, 20, 24), weight.to(device)).cpu(),
        conv2d(expanded, weight),
        rtol=1e-4,
        atol=1e-3,
    )
