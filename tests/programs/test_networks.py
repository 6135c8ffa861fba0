"""Small networks of the kinds that people train, for 20 to 50 steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from tests.programs import networks
from tests.programs.comparison import Run

pytestmark = pytest.mark.separate


def next_words(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        words = run.integers(0, 20, (3, 9))
        scores = model(words[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())

    return loss_of


def translation(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        source, target = run.integers(1, 20, (3, 7)), run.integers(1, 20, (3, 6))
        source[1, 4:] = 0
        target[2, 3:] = 0
        scores = model(source, target[:, :-1])
        return functional.cross_entropy(
            scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1
        )

    return loss_of


def speech(model: nn.Module) -> Callable[[Run], torch.Tensor]:
    def loss_of(run: Run) -> torch.Tensor:
        words = run.integers(0, 20, (2, 7))
        scores = model(run.draw(2, 6, 20), words[:, :-1])
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
    "T5": (networks.T5, translation, True),
    "Whisper": (networks.Whisper, speech, True),
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


def test_residual_network(same_as_on_cpu):
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

    def program(run):
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
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(pictures), run.integers(0, 5, (4,)))
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "model": model}

    same_as_on_cpu(program)


def test_variational_autoencoder(same_as_on_cpu):
    """Distributions of PyTorch, with noise of CPU's."""

    def program(run):
        encoder = run.on_device(nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 6)))
        decoder = run.on_device(nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 12)))
        model = nn.ModuleList([encoder, decoder])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(20):
            x = run.on_device(torch.rand(8, 12))
            mean, spread = encoder(x).chunk(2, dim=1)
            posterior = Normal(mean, functional.softplus(spread) + 1e-3)
            prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
            latent = posterior.mean + posterior.stddev * run.draw(8, 3)
            kept = functional.binary_cross_entropy_with_logits(decoder(latent), x, reduction="sum")
            loss = (kept + kl_divergence(posterior, prior).sum()) / 8
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "model": model}

    same_as_on_cpu(program)


def test_actions_and_rewards(same_as_on_cpu):
    """A policy, its values, and a second network that follows slowly; actions drawn on CPU."""

    def program(run):
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

    same_as_on_cpu(program)


def test_contrastive_learning(same_as_on_cpu):
    """Two views of samples, all pairs compared, a temperature that is learned."""

    def program(run):
        encoder = run.on_device(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 6)))
        warmth = run.on_device(torch.tensor(0.0)).requires_grad_()
        optimizer = torch.optim.AdamW([*encoder.parameters(), warmth], lr=0.01)
        same = torch.arange(7).to(run.device)
        for _ in range(20):
            samples = run.draw(7, 8)
            one = functional.normalize(encoder(samples + 0.1 * run.draw(7, 8)), dim=1)
            two = functional.normalize(encoder(samples + 0.1 * run.draw(7, 8)), dim=1)
            scores = one @ two.T * warmth.exp()
            loss = (
                functional.cross_entropy(scores, same) + functional.cross_entropy(scores.T, same)
            ) / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            distances = torch.cdist(one, two)
            yield {"loss": loss, "encoder": encoder, "warmth": warmth, "distances": distances}

    same_as_on_cpu(program)


def test_speech_recognition(same_as_on_cpu):
    """Spectra by Fourier transforms, a convolution, and a loss over all alignments."""

    def program(run):
        model = nn.Sequential(nn.Conv1d(9, 12, 3, padding=1), nn.SiLU(), nn.Conv1d(12, 6, 1))
        model = run.on_device(model)
        window = run.on_device(torch.hann_window(16))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(20):
            waves = run.draw(3, 128)
            spectra = torch.stft(waves, 16, 8, window=window, return_complex=True).abs()
            chances = model((spectra + 1).log()).log_softmax(1).permute(2, 0, 1)
            targets = run.integers(1, 6, (3, 5))
            lengths = torch.full((3,), chances.size(0)), torch.tensor([5, 3, 4])
            loss = functional.ctc_loss(chances, targets, *lengths)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "spectra": spectra, "model": model}

    same_as_on_cpu(program)


def test_spatial_transformer(same_as_on_cpu):
    """Images sampled where a network says; gradients go to the grid and to the image."""

    def program(run):
        model = run.on_device(
            nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, 6))
        )
        model[-1].weight.data.mul_(0.1)
        start = run.on_device(torch.tensor([1.0, 0, 0, 0, 1, 0]))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(20):
            pictures = run.draw(2, 3, 4, 4)
            grid = functional.affine_grid(
                (model(pictures) + start).view(-1, 2, 3), (2, 3, 5, 5), False
            )
            sampled = functional.grid_sample(
                pictures, grid, mode="bicubic", padding_mode="reflection", align_corners=False
            )
            loss = functional.smooth_l1_loss(sampled, run.draw(2, 3, 5, 5), beta=10.0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "sampled": sampled, "model": model}

    same_as_on_cpu(program)


def test_factors_of_matrices(same_as_on_cpu):
    """Decompositions in a loss: solve, Cholesky, determinants, eigenvalues."""

    def program(run):
        factors = run.on_device(torch.randn(5, 3)).requires_grad_()
        optimizer = torch.optim.Adam([factors], lr=0.02)
        unit = torch.eye(5, device=run.device, dtype=run.dtype)
        for _ in range(20):
            observed = run.draw(12, 5)
            covariance = factors @ factors.T + unit
            triangle = torch.linalg.cholesky(covariance)
            white = torch.linalg.solve_triangular(triangle, observed.T, upper=False)
            values = torch.linalg.eigvalsh(covariance)
            loss = (
                white.square().sum() / 12 + torch.linalg.slogdet(covariance)[1] + values[-1].log()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            triangle = torch.linalg.qr(observed, mode="r").R
            yield {"loss": loss, "factors": factors, "values": values, "triangle": triangle}

    same_as_on_cpu(program)


def accuracy_of(run: Run, model: nn.Module, patterns: torch.Tensor) -> Iterator[dict[str, Any]]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for number in range(50):
        classes = run.integers(0, 5, (16,))
        pictures = patterns[classes] + 0.3 * run.draw(16, 1, 8, 8)
        optimizer.zero_grad()
        scores = model(pictures)
        loss = functional.cross_entropy(scores, classes)
        loss.backward()
        optimizer.step()
        right = int((scores.argmax(1) == classes).sum()) if number > 40 else None
        yield {"loss": loss, "right": right}


def test_that_it_learns(same_as_on_cpu):
    """The networks above see noise; this one has something to learn, and learns it."""

    def program(run):
        patterns = run.on_device(torch.randn(5, 1, 8, 8))
        model = nn.Sequential(
            nn.Conv2d(1, 8, 3),
            nn.BatchNorm2d(8),
            nn.SiLU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(72, 5),
        )
        yield from accuracy_of(run, run.on_device(model), patterns)

    steps = same_as_on_cpu(program)
    assert steps[-1].values["loss"] < 0.1 * steps[0].values["loss"]
    assert all(step.values["right"] == 16 for step in steps[-5:])
