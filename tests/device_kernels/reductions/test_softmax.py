"""Softmax, also of what a mask leaves, by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import (
    assert_as_on_cpu,
    assert_raises_as_on_cpu,
    compare,
    gradcheck_on,
    with_gradients,
)

masked_softmax = torch.ops.aten._masked_softmax


def test_rows_of_infinities_and_nan(device):
    values = torch.randn(5, 11)
    values[0] = -torch.inf
    values[1, 3] = -torch.inf
    values[2, 4] = torch.inf
    values[3, 5] = torch.nan
    compare(device, lambda x: (torch.softmax(x, 1), torch.log_softmax(x, 1)), values)


def test_large_values_keep_their_precision(device):
    values = torch.randn(3, 1000) * 30
    compare(device, lambda x: torch.log_softmax(x, 1), values)


def test_columns_longer_than_vectors(device):
    values = (torch.randn(3, 37, 21) * 3).requires_grad_()
    for function in (torch.softmax, torch.log_softmax):
        ran = compare(device, with_gradients(lambda x, f=function: f(x, 1)), values)
        assert f"aten::_{function.__name__}_backward_data" in ran


def mask_of(*sizes: int) -> torch.Tensor:
    mask = torch.rand(sizes) > 0.6
    mask.view(-1, sizes[-1])[0] = True  # nothing is left: NaN
    return mask


@pytest.mark.parametrize(
    ("sizes", "dim", "kind"),
    [
        ((2, 3, 4, 4), None, None),
        ((4, 4), -1, 0),
        ((2, 4), 1, 1),
        ((2, 3, 4, 4), 1, 2),
        ((4, 4), 2, 0),
        ((2, 4), -1, 1),
    ],
)
def test_masks(device, sizes, dim, kind):
    values, mask = torch.randn(2, 3, 4, 4), mask_of(*sizes)
    for x in (values, values.bfloat16()):
        assert_as_on_cpu(device, lambda x, m: masked_softmax(x, m, dim, kind), x, mask)


def test_gradients_with_masks(device):
    values, mask = torch.randn(2, 3, 4, 5).requires_grad_(), mask_of(2, 3, 4, 5)
    compare(device, with_gradients(lambda x, m: masked_softmax(x, m, 2)), values, mask)
    mask[0, 0, 0, 0] = False
    gradcheck_on(device, lambda x: masked_softmax(x, mask.to(device)), values.detach())


@pytest.mark.parametrize(("sizes", "kind"), [((4, 4), None), ((4, 4), 7), ((3, 4), 0)])
def test_errors_of_masks_are_those_of_cpu(device, sizes, kind):
    arguments = torch.randn(2, 3, 4, 4), mask_of(*sizes), -1, kind
    assert_raises_as_on_cpu(device, masked_softmax, *arguments)
