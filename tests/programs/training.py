"""What many programs have in common: a small network, batches for it, a step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from tests.programs.comparison import Run

INPUTS, CLASSES = 6, 3


def perceptron(width: int = 16) -> nn.Sequential:
    """A network without an edge, at which rounding could decide between two gradients."""
    return nn.Sequential(
        nn.Linear(INPUTS, width),
        nn.Tanh(),
        nn.Linear(width, width),
        nn.SiLU(),
        nn.LayerNorm(width),
        nn.Linear(width, CLASSES),
    )


def with_dropout(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(INPUTS, width),
        nn.Dropout(0.3),
        nn.SiLU(),
        nn.Linear(width, width),
        nn.Dropout(0.2),
        nn.Linear(width, CLASSES),
    )


def batch(run: Run, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and classes, drawn on CPU."""
    return run.draw(size, INPUTS), run.integers(0, CLASSES, (size,))


def gradients_of(module: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def step(
    model: Callable[[torch.Tensor], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: torch.Tensor,
    classes: torch.Tensor,
) -> torch.Tensor:
    """One step of training; returns the loss."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(inputs), classes)
    loss.backward()
    optimizer.step()
    return loss.detach()
