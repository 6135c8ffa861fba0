"""Thirty steps of training on the device and on CPU; prints the losses of both as JSON.

OUTBOARD_DRIVER=... python -m torch_outboard.check.training_steps 30
"""

from __future__ import annotations

import copy
import json
import sys

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


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, steps: int) -> list[float]:
    """The losses of `steps` steps of Adam on shuffled batches."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        chosen = torch.arange(step, step + 16, device=images.device) % len(images)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(steps: int) -> None:
    """Prints `{"losses": [[cpu, device], ...], "weights": [cpu, device]}`."""
    torch.manual_seed(0)
    device = torch.device(torch_outboard.device_name(), 0)
    images, labels = torch.randn(64, 1, 8, 8), torch.randint(0, 10, (64,))
    on_cpu = network()
    on_device = copy.deepcopy(on_cpu).to(device)
    losses = [
        train(model, images.to(place), labels.to(place), steps)
        for model, place in ((on_cpu, torch.device("cpu")), (on_device, device))
    ]
    sums = [
        sum(float(weight.detach().cpu().double().abs().sum()) for weight in model.parameters())
        for model in (on_cpu, on_device)
    ]
    print(json.dumps({"losses": list(zip(*losses, strict=True)), "weights": sums}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
