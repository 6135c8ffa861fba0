"""Small networks of the kinds that people train."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.programs import networks
from tests.programs.comparison import Run

pytestmark = pytest.mark.separate


def next_words(model: nn.Module, run: Run) -> torch.Tensor:
    words = run.integers(0, 20, (3, 9))
    scores = model(words[:, :-1])
    return functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())


def images(model: nn.Module, run: Run) -> torch.Tensor:
    return functional.cross_entropy(model(run.draw(3, 3, 16, 16)), run.integers(0, 5, (3,)))


def diffusion(model: nn.Module, run: Run) -> torch.Tensor:
    clean, noise = run.draw(2, 3, 8, 8), run.draw(2, 3, 8, 8)
    times = run.on_device(torch.rand(2))
    part = (times * torch.pi / 2).cos()[:, None, None, None]
    noisy = part * clean + (1 - part.square()).sqrt() * noise
    return functional.mse_loss(model(noisy, times), noise)


def graphs(model: nn.Module, run: Run) -> torch.Tensor:
    edges = run.integers(0, 18, (2, 50))
    graph = (torch.arange(18) // 6).to(run.device)
    scores = model(run.draw(18, 5), edges, graph)
    return functional.cross_entropy(scores, run.integers(0, 3, (3,)))


def residual() -> nn.Module:
    """Convolutions in channels last, with groups, dilation and strides, norms and pooling."""
    layers = (
        nn.Conv2d(3, 8, 3, padding=2, dilation=2),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.Conv2d(8, 12, 3, stride=2, groups=2, bias=False),
        nn.BatchNorm2d(12),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 5),
    )
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


# The network, and its loss.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable]] = {
    "LLaMA": (networks.Llama, next_words),
    "U-Net": (networks.UNet, diffusion),
    "graph network": (networks.GraphNetwork, graphs),
    "channels last": (residual, images),
}


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(same_as_on_cpu, name):
    make, loss_of = NETWORKS[name]

    def program(run):
        model = run.on_device(make())
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for _ in range(8):
            optimizer.zero_grad()
            loss = loss_of(model, run)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            optimizer.step()
            yield {"loss": loss, "norm": norm, "model": model}

    same_as_on_cpu(program)
