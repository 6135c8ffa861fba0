"""Thirty steps of training on the device and on CPU; prints the losses of both as JSON.

OUTBOARD_DRIVER=... python -m torch_outboard.check.training_steps 30
"""

from __future__ import annotations

import copy
import json
import sys
import time

import torch
from torch import nn

import torch_outboard


def network() -> nn.Module:
    """Convolution, normalization, products and a residual connection."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.GroupNorm(2, 6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6 * 4 * 4, 24),
        nn.GELU(),
        nn.Linear(24, 10),
    )


def step_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> float:
    """The loss of a step of training."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def main(steps: int, seconds: float) -> None:
    """Prints `{"cpu": loss, "device": loss}` for each step, until the time is over."""
    begin = time.monotonic()
    torch.manual_seed(0)
    device = torch.device(torch_outboard.device_name(), 0)
    images, labels = torch.randn(64, 1, 8, 8), torch.randint(0, 10, (64,))
    on_cpu = network()
    on_device = copy.deepcopy(on_cpu).to(device)
    models = {"cpu": on_cpu, "device": on_device}
    optimizers = {name: torch.optim.Adam(m.parameters(), lr=0.01) for name, m in models.items()}
    data = {"cpu": (images, labels), "device": (images.to(device), labels.to(device))}
    for step in range(steps):
        losses = {}
        for name, model in models.items():
            some, theirs = data[name]
            chosen = torch.arange(step, step + 16, device=some.device) % len(some)
            losses[name] = step_of(model, optimizers[name], some[chosen], theirs[chosen])
        print(json.dumps(losses), flush=True)
        if time.monotonic() - begin > seconds:
            break


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
