"""Softmax of what a mask leaves, by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu, compare, gradcheck_on, with_gradients

masked_softmax = torch.ops.aten._masked_softmax


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
def test_masked_softmax(device, sizes, dim, kind):
    torch.manual_seed(0)
    values, mask = torch.randn(2, 3, 4, 4), mask_of(*sizes)
    assert_as_on_cpu(device, lambda x, m: masked_softmax(x, m, dim, kind), values, mask)
    half = values.bfloat16()
    compare(device, lambda x, m: masked_softmax(x, m, dim, kind), half, mask)


def test_gradients(device):
    torch.manual_seed(0)
    values, mask = torch.randn(2, 3, 4, 5).requires_grad_(), mask_of(2, 3, 4, 5)
    compare(device, with_gradients(lambda x, m: masked_softmax(x, m, 2)), values, mask)
    mask[0, 0, 0, 0] = False
    gradcheck_on(device, lambda x: masked_softmax(x, mask.to(device)), values.detach())


@pytest.mark.parametrize(("sizes", "kind"), [((4, 4), None), ((4, 4), 7), ((3, 4), 0)])
def test_errors_are_those_of_cpu(device, sizes, kind):
    values, mask = torch.randn(2, 3, 4, 4), mask_of(*sizes)
    with pytest.raises(RuntimeError) as theirs:
        masked_softmax(values, mask, -1, kind)
    with pytest.raises(RuntimeError) as ours:
        masked_softmax(values.to(device), mask.to(device), -1, kind)
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]
