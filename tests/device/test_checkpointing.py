"""Activation checkpointing: what is computed again must be what was computed first."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.checkpointed import gradients

pytestmark = [pytest.mark.separate, pytest.mark.torture]

VARIANTS = pytest.mark.parametrize("reentrant", [True, False])


@VARIANTS
@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16])
def test_the_same_masks_are_drawn_again(device, reentrant, autocast):
    expected = gradients(device, None, autocast)
    got = gradients(device, reentrant, autocast)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert any(not torch.equal(g, torch.zeros_like(g)) for g in got)


@VARIANTS
def test_generators_of_all_devices_of_the_arguments_are_kept(device, second, reentrant):
    masks = []

    def noisy(x, y):
        drawn = torch.rand(64, device=device), torch.rand(64, device=second)
        masks.append([mask.cpu() for mask in drawn])
        return (x * drawn[0]).sum() + (y * drawn[1]).sum().to(device)

    x, y = (torch.ones(64, device=d, requires_grad=True) for d in (device, second))
    loss = checkpoint(noisy, x, y, use_reentrant=reentrant)
    torch.rand(7, device=second)
    # PyTorch computes again in every thread that asks, also in two at once.
    with torch.autograd.set_multithreading_enabled(False):
        loss.backward()
    torch.testing.assert_close(masks[0], masks[1], rtol=0, atol=0)
    torch.testing.assert_close([x.grad.cpu(), y.grad.cpu()], masks[0])


@VARIANTS
def test_the_state_of_the_generator_is_as_without_checkpointing(device, device_module, reentrant):
    def noisy(x):
        return x * torch.rand(10, device=device)

    x = torch.ones(10, device=device, requires_grad=True)
    torch.manual_seed(3)
    noisy(x).sum().backward()
    expected = device_module.get_rng_state()
    torch.manual_seed(3)
    checkpoint(noisy, x, use_reentrant=reentrant).sum().backward()
    assert torch.equal(device_module.get_rng_state(), expected)


def test_sequences_of_checkpoints(device):
    layers = torch.nn.Sequential(*(torch.nn.Dropout(0.5) for _ in range(4)))
    results = []
    for segments in (None, 2):
        x = torch.ones(1000, device=device, requires_grad=True)
        torch.manual_seed(4)
        if segments is None:
            y = layers(x)
        else:
            y = checkpoint_sequential(layers, segments, x, use_reentrant=False)
        y.sum().backward()
        results.append((y.detach(), x.grad))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
