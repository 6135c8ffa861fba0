"""Dropout and randomized leaky ReLU."""

import numpy as np
import pytest
import torch

from tests.random import philox_reference as reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
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


def test_dropout_draws_as_bernoulli(device):
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
    assert output.data_ptr() != x.data_ptr()
    z = torch.ones(500, dtype=torch.complex64, device=device)
    output, mask = torch.native_dropout(z, 0.5, True)
    torch.testing.assert_close(output.cpu(), mask.cpu() * (2 + 0j))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
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
