"""Norms and variances of complex values by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import compare, with_gradients

VALUES = torch.randn(4, 5, 6, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("order", [2, 1, 0, 3.5, float("inf"), -float("inf")])
def test_norms(device, order):
    compare(device, lambda x: torch.linalg.vector_norm(x, order), VALUES)
    compare(device, lambda x: torch.linalg.vector_norm(x, order, (0, 2), keepdim=True), VALUES)


def test_norms_in_another_dtype(device):
    compare(
        device,
        lambda x: (
            torch.linalg.vector_norm(x, 2, 1, dtype=torch.complex128),
            torch.renorm(x, 2, 0, 1.0),
            torch.nn.functional.normalize(x, dim=1),
        ),
        VALUES,
    )
    with pytest.raises(RuntimeError, match="complex"):
        torch.linalg.vector_norm(VALUES.to(device), dtype=torch.float32)


def test_variances(device):
    compare(
        device,
        lambda x: (
            x.var(),
            x.std((0, 1), correction=0, keepdim=True),
            torch.var(x, 1, correction=2),
            *torch.var_mean(x, -2),
            *torch.std_mean(x),
        ),
        VALUES,
    )


def test_given_outputs(device):
    compare(
        device,
        lambda x, out: (torch.linalg.vector_norm(x, 2, 1, out=out), torch.std(x, 1, out=out)),
        VALUES,
        torch.empty(4, 6),
    )


def test_gradients(device):
    for function in (
        torch.linalg.vector_norm,
        lambda x: x.var(1),
        lambda x: x.std(),
        lambda x: (x / 4).tanh().abs(),  # far from its poles
    ):
        compare(device, with_gradients(function), VALUES.clone().requires_grad_())
