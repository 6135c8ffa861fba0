"""Dropout and randomized leaky ReLU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.random import philox_reference as reference
from tests.random.random_draws import FLOATING

pytestmark = pytest.mark.separate


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "expanded"])
def test_dropout_forward_and_backward_use_one_mask(device, dtype, layout):
    x = torch.randn(4, 6, 5, 5).to(device, dtype)
    if layout == "channels_last":
        x = x.to(memory_format=torch.channels_last)
    elif layout == "expanded":
        x = x[:, :1].expand(4, 6, 5, 5)
    x = x.requires_grad_()
    torch.manual_seed(41)
    y = torch.nn.functional.dropout(x, 0.25, training=True)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.manual_seed(41)
    output, mask = torch.native_dropout(x.detach(), 0.25, True)
    assert output.stride() == torch.empty_like(x).stride()
    assert torch.equal(y.detach().cpu(), output.cpu())
    kept = mask.cpu()
    scale = 1 / 0.75
    torch.testing.assert_close(output.cpu(), x.detach().cpu() * kept * scale)
    torch.testing.assert_close(grad.cpu(), kept.to(dtype) * scale)
    assert abs(kept.float().mean() - 0.75) < 0.08


def test_dropout_draws_as_bernoulli(device, generator, device_module):
    torch.manual_seed(42)
    mask = torch.native_dropout(torch.ones(1000, device=device), 0.4, True)[1]
    kept = reference.draws_32(1000, 42, 0) < (1 - 0.4) * 2**32
    np.testing.assert_array_equal(mask.cpu().numpy(), kept)


def test_dropout_edge_cases(device):
    x = torch.tensor([1.0, float("inf"), float("nan")], device=device)
    output, mask = torch.native_dropout(x, 0.0, True)
    assert mask.all().item()
    torch.testing.assert_close(output.cpu(), x.cpu(), equal_nan=True)
    output, mask = torch.native_dropout(torch.ones(5, device=device), 1.0, True)
    assert not mask.any().item()
    assert not output.any().item()
    output, mask = torch.native_dropout(x, 0.5, False)
    assert mask.all().item()
    assert mask.dtype == torch.bool
    assert output.data_ptr() != x.data_ptr()
    output, mask = torch.native_dropout(torch.empty(0, 3, device=device), 0.5, True)
    assert output.shape == mask.shape == (0, 3)
    z = torch.ones(500, dtype=torch.complex64, device=device)
    output, mask = torch.native_dropout(z, 0.5, True)
    torch.testing.assert_close(output.cpu(), mask.cpu() * (2 + 0j))


@pytest.mark.parametrize(
    "drop",
    [
        torch.nn.functional.alpha_dropout,
        torch.nn.functional.feature_alpha_dropout,
        torch.nn.functional.dropout1d,
        torch.nn.functional.dropout2d,
    ],
)
def test_composite_dropouts(device, drop):
    x = torch.randn(64, 32, 10, device=device)
    if drop is torch.nn.functional.dropout2d:
        x = x.unsqueeze(-1)
    x.requires_grad_()
    torch.manual_seed(43)
    first = drop(x, 0.5, training=True)
    torch.manual_seed(43)
    assert torch.equal(drop(x, 0.5, training=True).cpu(), first.cpu())
    first.sum().backward()
    assert x.grad.isfinite().all().item()
    if drop in (torch.nn.functional.dropout1d, torch.nn.functional.dropout2d):
        dropped = (first == 0).flatten(2).all(2).cpu()
        assert abs(dropped.float().mean() - 0.5) < 0.05
        assert torch.equal(x.grad.cpu().flatten(2)[:, :, 0] == 0, dropped)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("in_place", [False, True])
def test_rrelu(device, dtype, in_place):
    torch.manual_seed(44)
    x = torch.randn(50, 40, dtype=dtype).to(device).t()
    leaf = x.clone().requires_grad_()
    noise = torch.empty_like(x)
    if in_place:
        y = torch.ops.aten.rrelu_with_noise_(leaf.clone(), noise, 0.1, 0.3, True)
    else:
        y = torch.ops.aten.rrelu_with_noise(leaf, noise, 0.1, 0.3, True)
    values, slopes = x.cpu(), noise.cpu()
    assert (slopes[values > 0] == 1).all()
    drawn = slopes[values <= 0].double()
    assert drawn.min() >= 0.0995
    assert drawn.max() <= 0.3005
    torch.testing.assert_close(y.detach().cpu(), values * slopes)
    y.sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), slopes)


def test_rrelu_in_evaluation_is_a_leaky_relu(device):
    x = torch.randn(30, device=device)
    torch.testing.assert_close(
        torch.nn.functional.rrelu(x, 0.1, 0.3).cpu(),
        torch.nn.functional.leaky_relu(x.cpu(), 0.2),
    )
