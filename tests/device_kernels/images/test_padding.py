"""Padding by device kernels, against CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests.device_kernels.on_device import assert_as_on_cpu, gradcheck_on

PADDING = {1: (3, 2), 2: (3, 2, 1, 2), 3: (3, 2, 1, 0, 2, 2)}


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_values_and_gradients(device, dims, mode):
    x = torch.randn(2, 3, *(3, 4, 5)[3 - dims :])

    def pad(x):
        return F.pad(x, PADDING[dims], mode)

    assert_as_on_cpu(device, pad, x)
    assert_as_on_cpu(device, pad, x[0])
    gradcheck_on(device, pad, x)


def test_negative_amounts(device):
    x = torch.randn(2, 3, 4, 5)
    gradcheck_on(device, lambda x: F.pad(x, (-2, 3, 1, -2), "replicate"), x)
    assert_as_on_cpu(device, lambda x: F.pad(x, (-2, 3, 1, -2), "replicate"), x)


def test_too_much_reflection_raises(device):
    with pytest.raises(RuntimeError, match="Padding size should be less"):
        F.pad(torch.randn(1, 2, 3, device=device), (3, 0), "reflect")
