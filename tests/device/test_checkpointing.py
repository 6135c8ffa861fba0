"""Activation checkpointing: what is computed again must be what was computed first."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

VARIANTS = pytest.mark.parametrize("reentrant", [True, False])


def gradients(
    device: torch.device, reentrant: bool | None, autocast: torch.dtype | None
) -> list[torch.Tensor]:
    """Gradients of a small network, whose masks depend on nothing but the seed, and the generator.

    Args:
        device: where.
        reentrant: which variant of checkpointing; None for none.
        autocast: the dtype of autocast; None for none.
    """
    torch.manual_seed(0)
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.5)) for _ in range(3)
    ).to(device)
    x = torch.linspace(-1, 1, 8 * 16, device=device).reshape(8, 16).requires_grad_()
    torch.manual_seed(1)
    y = x
    with torch.autocast(device.type, dtype=autocast) if autocast else nullcontext():
        for block in blocks:
            y = block(y) if reentrant is None else checkpoint(block, y, use_reentrant=reentrant)
    torch.rand(5, device=device)  # the state at the backward pass is another one
    y.float().square().sum().backward()
    state = torch.get_device_module(device).get_rng_state()
    return [x.grad, *(p.grad for p in blocks.parameters()), state]


@VARIANTS
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_the_same_masks_are_drawn_again(device, reentrant, autocast):
    expected = gradients(device, None, autocast)
    got = gradients(device, reentrant, autocast)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert any(not torch.equal(g, torch.zeros_like(g)) for g in got[:-1])


@VARIANTS
def test_generators_of_all_devices_of_the_arguments_are_saved(device, second, reentrant):
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
