"""A network with dropout, with and without activation checkpointing."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def gradients(
    device: torch.device, reentrant: bool | None, autocast: torch.dtype | None = None
) -> list[torch.Tensor]:
    """Gradients of a small network, whose masks depend on nothing but the seed.

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
    return [x.grad, *(p.grad for p in blocks.parameters())]
