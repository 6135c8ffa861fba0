"""Weights as direction and length, by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu, compare, with_gradients

OPERATORS = {"aten::_weight_norm_interface", "aten::_weight_norm_interface_backward"}


@pytest.mark.parametrize("dim", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_weights_and_gradients(device, dim, dtype):
    v = torch.randn(5, 4, 3, dtype=dtype)
    g = torch.rand([n if d == dim else 1 for d, n in enumerate(v.shape)], dtype=dtype) + 0.5
    run = with_gradients(lambda v, g: torch._weight_norm(v, g, dim))
    assert compare(device, run, v.requires_grad_(), g.requires_grad_()) >= OPERATORS


def test_half_types(device):
    v, g = torch.randn(5, 40).bfloat16(), torch.rand(5, 1).bfloat16()
    forward, backward = (
        getattr(torch.ops.aten, name.partition("::")[2]) for name in sorted(OPERATORS)
    )
    assert_as_on_cpu(device, lambda v, g: forward(v, g, 0), v, g)
    norms = forward(v, g, 0)[1]
    run = lambda dw, v, g, n: backward(dw, v, g, n, 0)  # noqa: E731
    assert_as_on_cpu(device, run, torch.randn(5, 40).bfloat16(), v, g, norms)
