"""Small versions of the networks that people train, each with a batch and a loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.training_steps import Gpt, ResNet18


class Bert(nn.Module):
    """A bidirectional encoder with padding, trained to restore masked tokens."""

    def __init__(self, tokens: int = 50, width: int = 32, length: int = 16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width, padding_idx=0)
        self.places = nn.Embedding(length, width)
        self.normalization = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=64, dropout=0.1, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, tokens)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        places = torch.arange(indices.size(1), device=indices.device)
        x = self.normalization(self.tokens(indices) + self.places(places))
        return self.head(self.encoder(x, src_key_padding_mask=indices == 0))


class UNet(nn.Module):
    """Down by pooling, up once by transposed convolution and once by interpolation."""

    def __init__(self) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.GroupNorm(4, outputs),
                nn.SiLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs),
                nn.LeakyReLU(0.1),
            )

        self.first, self.second, self.third = block(3, 8), block(8, 16), block(16, 16)
        self.up = nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.fourth, self.fifth = block(32, 8), block(16, 8)
        self.head = nn.Conv2d(8, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        second = self.second(functional.max_pool2d(first, 2))
        third = self.third(functional.avg_pool2d(second, 2))
        fourth = self.fourth(torch.cat([self.up(third), second], dim=1))
        wide = functional.interpolate(fourth, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.fifth(torch.cat([wide, first], dim=1)))


class Lstm(nn.Module):
    """A recurrent language model."""

    def __init__(self, tokens: int = 40, width: int = 24) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.recurrent = nn.LSTM(width, width, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, tokens)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.tokens(indices))[0])


Batch = tuple[torch.Tensor, torch.Tensor]


def _words(tokens: int, length: int) -> Batch:
    words = torch.randint(1, tokens, (4, length))
    words[1, length // 2 :] = 0
    return words, words.roll(-1, dims=1)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch]]] = {
    "ResNet-18": (ResNet18, lambda: (torch.randn(2, 3, 64, 64), torch.randint(0, 1000, (2,)))),
    "GPT": (
        lambda: Gpt(tokens=60, length=16, width=32),
        lambda: _words(60, 16),
    ),
    "BERT": (Bert, lambda: _words(50, 16)),
    "U-Net": (UNet, lambda: (torch.randn(2, 3, 16, 16), torch.randint(0, 5, (2, 16, 16)))),
    "LSTM": (Lstm, lambda: _words(40, 10)),
}


def loss_of(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross entropy; the classes are the last dimension, or the second one of images."""
    if logits.dim() == 3:
        logits, target = logits.flatten(0, 1), target.flatten()
    return functional.cross_entropy(logits, target, ignore_index=0, label_smoothing=0.0)
