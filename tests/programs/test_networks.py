"""Small networks of the kinds that people train, for 20 to 50 steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.programs import networks
from tests.programs.comparison import Run, as_on_cpu
from tests.programs.training import descend

pytestmark = pytest.mark.separate


def next_words(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        words = run.integers(0, 20, (3, 9))
        scores = model(words[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())

    return loss_of


def routed(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        words = run.integers(0, 20, (3, 9))
        scores, balance = model(words[:, :-1])
        return functional.cross_entropy(scores, words[:, 1:].flatten()) + 0.1 * balance

    return loss_of


def images(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        return functional.cross_entropy(model(run.draw(3, 3, 16, 16)), run.integers(0, 5, (3,)))

    return loss_of


def diffusion(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        clean, noise = run.draw(2, 3, 8, 8), run.draw(2, 3, 8, 8)
        times = run.on_device(torch.rand(2))
        part = (times * torch.pi / 2).cos()[:, None, None, None]
        noisy = part * clean + (1 - part.square()).sqrt() * noise
        return functional.mse_loss(model(noisy, times), noise)

    return loss_of


def graphs(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        edges = run.integers(0, 18, (2, 50))
        graph = (torch.arange(18) // 6).to(run.device)
        scores = model(run.draw(18, 5), edges, graph)
        return functional.cross_entropy(scores, run.integers(0, 3, (3,)))

    return loss_of


# The network, its loss, and whether the host's kernels give CPU's bits.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable, bool]] = {
    "GPT-2": (networks.Gpt2, next_words, True),
    "LLaMA": (networks.Llama, next_words, True),
    "Mamba": (networks.Mamba, next_words, True),
    "mixture of experts": (networks.MixtureOfExperts, routed, True),
    "ViT": (networks.Vit, images, False),  # CPU has the GELU of oneDNN
    "U-Net": (networks.UNet, diffusion, True),
    "graph network": (networks.GraphNetwork, graphs, True),
}


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(same_as_on_cpu, name):
    make, losses, bitwise = NETWORKS[name]

    def program(run):
        model = run.on_device(make())
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        loss_of = losses(model)
        for _ in range(20):
            optimizer.zero_grad()
            loss = loss_of(run)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            optimizer.step()
            yield {"loss": loss, "norm": norm, "model": model}

    same_as_on_cpu(program, bitwise=bitwise)


@as_on_cpu
def test_residual_network(run):
    """Convolutions in channels last, with groups, dilation and strides, and pooling."""

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, **settings):
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=settings.get("dilation", 1), **settings),
                nn.BatchNorm2d(outputs),
                nn.SiLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1, groups=outputs, bias=False),
                nn.BatchNorm2d(outputs),
            )
            self.across = nn.Conv2d(inputs, outputs, 1, stride=settings.get("stride", 1))

        def forward(self, x):
            return functional.silu(self.inner(x) + self.across(x))

    model = nn.Sequential(
        Residual(3, 8),
        Residual(8, 8, dilation=2),
        nn.AvgPool2d(2),
        Residual(8, 12, stride=2, groups=2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 5),
    )
    model = run.on_device(model).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for _ in range(20):
        pictures = run.draw(4, 3, 12, 12).contiguous(memory_format=torch.channels_last)
        loss = functional.cross_entropy(model(pictures), run.integers(0, 5, (4,)))
        descend(optimizer, loss)
        yield {"loss": loss, "model": model}


@as_on_cpu
def test_actions_and_rewards(run):
    """A policy, its values, and a second network that follows slowly; actions drawn on CPU."""
    policy = run.on_device(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
    values = run.on_device(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
    slow = run.on_device(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
    slow.load_state_dict(values.state_dict())
    learned = [*policy.parameters(), *values.parameters()]
    optimizer = torch.optim.RMSprop(learned, lr=0.005)
    for _ in range(20):
        states, later = run.draw(10, 4), run.draw(10, 4)
        actions, rewards = run.integers(0, 3, (10,)), run.draw(10)
        ended = run.integers(0, 2, (10,)).bool()
        with torch.no_grad():
            future = slow(later).logsumexp(1).masked_fill(ended, 0)
            returns = torch.zeros_like(rewards)
            total = torch.zeros((), device=run.device, dtype=run.dtype)
            for place in reversed(range(10)):
                total = rewards[place] + 0.9 * torch.where(ended[place], 0, total)
                returns[place] = total
        taken = values(states).gather(1, actions[:, None]).squeeze(1)
        surprise = rewards + 0.9 * future - taken
        choice = torch.distributions.Categorical(logits=policy(states))
        gain = choice.log_prob(actions) * (returns - taken.detach())
        loss = surprise.square().mean() - gain.mean() - 0.01 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learned, 0.5, foreach=False)
        optimizer.step()
        with torch.no_grad():
            for theirs, ours in zip(slow.parameters(), values.parameters(), strict=True):
                theirs.lerp_(ours, 0.1)
        yield {"loss": loss, "returns": returns, "policy": policy, "slow": slow}


def test_that_it_learns(same_as_on_cpu):
    """The networks above see noise; this one has something to learn, and learns it."""

    def program(run):
        patterns = run.on_device(torch.randn(5, 1, 8, 8))
        model = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(72, 5),
        )  # fmt: skip
        model = run.on_device(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for number in range(50):
            classes = run.integers(0, 5, (16,))
            scores = model(patterns[classes] + 0.3 * run.draw(16, 1, 8, 8))
            loss = descend(optimizer, functional.cross_entropy(scores, classes))
            right = int((scores.argmax(1) == classes).sum()) if number > 40 else None
            yield {"loss": loss, "right": right}

    steps = same_as_on_cpu(program)
    assert steps[-1].values["loss"] < 0.1 * steps[0].values["loss"]
    assert all(step.values["right"] == 16 for step in steps[-5:])
