"""Shared by many programs: a small network, batches for it, a step."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.programs.comparison import Run

INPUTS, CLASSES = 6, 3


def perceptron(width: int = 16, **options: Any) -> nn.Sequential:
    """A network without an edge, at which rounding could decide between two gradients."""
    return nn.Sequential(
        nn.Linear(INPUTS, width, **options),
        nn.Tanh(),
        nn.Linear(width, width, **options),
        nn.SiLU(),
        nn.LayerNorm(width, **options),
        nn.Linear(width, CLASSES, **options),
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
    return descend(optimizer, functional.cross_entropy(model(inputs), classes))


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> torch.Tensor:
    """One step of an optimizer by the gradients of a loss, which is returned."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def steps(
    run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, /, **others: Any
) -> Iterator[dict[str, Any]]:
    """Steps of training, which show the loss, the model, and others."""
    for _ in range(8):
        yield {"loss": step(model, optimizer, *batch(run)), "model": model, **others}
