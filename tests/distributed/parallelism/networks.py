"""Networks that ranks train, and one process without a group as the reference."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

Loss = Callable[[Any, torch.Tensor], torch.Tensor]
BATCH = 8


def network() -> nn.Sequential:
    """Input (N, 8), output (N, 4); the same weights at every call."""
    torch.manual_seed(0)
    layers = nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 4)
    return nn.Sequential(*layers)


def batches(steps: int = 10) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs (BATCH, 8) and targets (BATCH, 4) on CPU."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(BATCH, 8, generator=generator)
        yield x, torch.randn(BATCH, 4, generator=generator)


def part_of(rank: int, ranks: int) -> slice:
    """The rows of a batch that are a rank's."""
    return slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)


def squares(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


def adam(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2)


def train(
    model: nn.Module,
    location: torch.device | str,
    rows: slice = slice(None),
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = 10,
    loss_of: Loss = squares,
) -> list[float]:
    """The losses of some steps on these rows of each batch."""
    optimizer = optimizer or adam(model.parameters())
    losses = []
    for x, y in batches(steps):
        optimizer.zero_grad()
        loss = loss_of(model(x[rows].to(location)), y[rows].to(location))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def alone(steps: int = 10, model: nn.Module | None = None) -> tuple[nn.Module, list[float]]:
    """Losses of one process on CPU with whole batches."""
    model = model or network()
    return model, train(model, "cpu", steps=steps)


def mean_over_ranks(losses: list[float], location: torch.device | str) -> list[float]:
    values = torch.tensor(losses, device=location)
    dist.all_reduce(values)
    return (values / dist.get_world_size()).tolist()


def check_losses(ours: list[float], theirs: list[float], tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(
        torch.tensor(ours), torch.tensor(theirs), rtol=tolerance, atol=tolerance / 10
    )


def check_parameters(
    ours: Iterable[torch.Tensor], theirs: Iterable[torch.Tensor], tolerance: float = 1e-4
) -> None:
    """Of DTensors the whole is compared."""
    for mine, wanted in zip(ours, theirs, strict=True):
        whole = mine.full_tensor() if hasattr(mine, "full_tensor") else mine
        torch.testing.assert_close(
            whole.detach().cpu(), wanted.detach(), rtol=tolerance, atol=tolerance / 10
        )
