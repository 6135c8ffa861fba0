"""Distances and segments by device kernels, against CPU."""

import torch

from tests.device_kernels.on_device import (
    assert_as_on_cpu,
    compare,
    difference,
    with_gradients,
)


def test_pairs_of_many_rows(device):
    assert_as_on_cpu(device, torch.nn.functional.pdist, torch.randn(700, 1))
    assert_as_on_cpu(device, torch.cdist, torch.randn(19, 33), torch.randn(23, 33))


def test_gradients_of_no_distances_keep_strides(device):
    points, none = torch.randn(1, 5, 4).mT, torch.randn(0, 3, 5)

    def gradient(x, y):
        return torch.autograd.grad(torch.cdist(x.requires_grad_(), y).sum(), x)

    assert difference(device, gradient, points, none) is None


def test_products_of_segments_with_zeros(device):
    """Their gradient is the product of the others. Some segments are empty."""
    data = torch.randint(-2, 3, (2, 7, 3)).float().requires_grad_()
    offsets = torch.tensor([[0, 2, 2, 7], [0, 1, 4, 7]])
    for initial in (None, 2):
        run = with_gradients(
            lambda x, o, i=initial: torch.segment_reduce(x, "prod", offsets=o, axis=1, initial=i)
        )
        compare(device, run, data, offsets)
