"""Training steps, compiled against eager, on the device."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.inductor.support import check

Loss = Callable[[nn.Module, torch.Tensor], torch.Tensor]


def mlp() -> tuple[nn.Module, torch.Tensor, Loss]:
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 5))
    return model, torch.randn(16, 20), lambda m, x: m(x).square().mean()


def cnn() -> tuple[nn.Module, torch.Tensor, Loss]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    target = torch.arange(4)
    return model, torch.randn(4, 3, 16, 16), lambda m, x: F.cross_entropy(m(x), target.to(x.device))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = self.out(y.transpose(1, 2).reshape(batch, length, width))
        x = x + F.dropout(y, self.dropout, self.training)
        return x + F.dropout(self.inner(self.second(x)), self.dropout, self.training)


class Language(nn.Module):
    def __init__(self, words: int = 65, width: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(Block(width, 4, 0.1), Block(width, 4, 0.1))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        x = self.words(i) + self.places(torch.arange(i.shape[1], device=i.device))
        return self.head(self.norm(self.blocks(x)))


def gpt() -> tuple[nn.Module, torch.Tensor, Loss]:
    words = torch.randint(0, 65, (4, 24))
    return Language(), words, lambda m, i: F.cross_entropy(m(i).flatten(0, 1), i.flatten())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.inner = nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.out = nn.Conv2d(11, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(x)
        y = F.interpolate(self.up(y + self.inner(y)), x.shape[-2:], mode="bilinear")
        return self.out(torch.cat([x, y], 1))


def unet() -> tuple[nn.Module, torch.Tensor, Loss]:
    return UNet(), torch.randn(2, 3, 12, 12), lambda m, x: (m(x) - x).square().mean()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(6, 12, 2, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0][:, -1])


def lstm() -> tuple[nn.Module, torch.Tensor, Loss]:
    return Recurrent(), torch.randn(4, 5, 6), lambda m, x: m(x).square().mean()


def transformer() -> tuple[nn.Module, torch.Tensor, Loss]:
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True)
    return model, torch.randn(2, 6, 16), lambda m, x: (m(x, x) - x).square().mean()


@pytest.mark.parametrize(
    "make",
    [
        mlp,
        *(
            pytest.param(make, marks=pytest.mark.slow)
            for make in (cnn, gpt, unet, lstm, transformer)
        ),
    ],
)
def test_training_steps(make: Callable[[], tuple[nn.Module, torch.Tensor, Loss]], device: object):
    torch.manual_seed(0)
    model, x, loss = make()
    x = x.to(device)
    eager = model.to(device)
    models = {copy.deepcopy(eager): torch.compile(loss), eager: loss}
    losses = []
    for each, function in models.items():
        torch.manual_seed(3)
        optimizer = torch.optim.Adam(each.parameters(), lr=1e-3)
        steps = []
        for _ in range(3):
            optimizer.zero_grad()
            value = function(each, x)
            value.backward()
            optimizer.step()
            steps.append(value.item())
        losses.append(steps)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)


def test_gradients_of_a_convolution_whose_input_has_channels_last(device: torch.device):
    """The gradient of its weight, in memory as the compiler expects it."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        normal = F.layer_norm(x.permute(0, 2, 3, 1), (8,)).permute(0, 3, 1, 2)
        y = F.conv2d(normal, weight, stride=2).square().sum()
        return torch.autograd.grad(y, (x, weight))

    x = torch.randn(2, 8, 4, 4, requires_grad=True)
    weight = torch.randn(16, 8, 2, 2, requires_grad=True)
    check(function, x, weight, device=device, tolerance=1e-4)
