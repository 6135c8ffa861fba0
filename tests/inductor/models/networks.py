"""Small networks of torch's own layers and losses, with batches for them.

None draws anything, so that CPU is the reference.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.programs.networks import RootMeanSquare, UNet

Batch = dict[str, torch.Tensor]
LENGTH = 10


class Called(nn.Module):
    """A layer whose arguments have the names of a batch, and a function of its results."""

    def __init__(self, layer: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, **batch: torch.Tensor) -> Any:
        return self.call(self.layer, **batch)


class Block(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.SiLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.around = nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.silu(self.inner(x) + self.around(x))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


class Words(nn.Module):
    """Embeddings of all kinds, and a loss of words that are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8, padding_idx=0)
        self.bags = nn.EmbeddingBag(20, 8, mode="mean")
        self.norm = RootMeanSquare(8)
        self.scores = nn.Bilinear(8, 8, 20)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(indices) + self.bags(indices)[:, None])
        scores = self.scores(x, x.roll(1, 1))
        return functional.cross_entropy(scores.mT, indices, ignore_index=0, label_smoothing=0.1)


def transformer() -> nn.Module:
    def call(layer: nn.Transformer, x: torch.Tensor, y: torch.Tensor) -> Any:
        mask = layer.generate_square_subsequent_mask(y.size(1), device=y.device, dtype=y.dtype)
        return layer(x, y, tgt_mask=mask, tgt_is_causal=True)

    return Called(nn.Transformer(16, 4, 1, 1, 32, dropout=0.0, batch_first=True), call)


def encoder() -> nn.Module:
    """Of padded sequences. In evaluation, its layers are one call each."""

    def call(layer: nn.TransformerEncoder, x: torch.Tensor, y: torch.Tensor) -> Any:
        lengths = torch.tensor([x.size(1), 4], device=x.device)
        mask = torch.arange(x.size(1), device=x.device)[None] >= lengths[:, None]
        return layer(x, src_key_padding_mask=mask).masked_fill(mask[..., None], 0.0)

    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True)
    return Called(nn.TransformerEncoder(layer, 2), call)


def recurrent(kind: type[nn.RNNBase], **others: Any) -> nn.Module:
    def call(layer: nn.RNNBase, x: torch.Tensor, y: torch.Tensor) -> Any:
        return layer(x)[0]

    return Called(kind(16, 8, batch_first=True, **others), call)


@dataclass(frozen=True)
class Network:
    """Attributes:
    make: a module in training mode, from the current random state.
    batch: makes the arguments of a call.
    """

    make: Callable[[], nn.Module]
    batch: Callable[..., Batch]


def sequences(length: int = LENGTH) -> Batch:
    return {"x": torch.randn(2, length, 16), "y": torch.randn(2, 6, 16)}


NETWORKS: dict[str, Network] = {
    "perceptron": Network(
        lambda: nn.Sequential(nn.Linear(6, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3)),
        lambda count=5: {"input": torch.randn(count, 6)},
    ),
    "ResNet": Network(resnet, lambda: {"input": torch.randn(2, 3, 32, 32)}),
    "U-Net": Network(UNet, lambda: {"images": torch.randn(2, 3, 8, 8), "times": torch.rand(2)}),
    "LSTM": Network(partial(recurrent, nn.LSTM, num_layers=2, bidirectional=True), sequences),
    "GRU": Network(partial(recurrent, nn.GRU), sequences),
    "RNN": Network(partial(recurrent, nn.RNN), sequences),
    "embeddings": Network(Words, lambda length=8: {"indices": torch.randint(0, 20, (3, length))}),
    "Transformer": Network(transformer, sequences),
    "TransformerEncoder": Network(encoder, sequences),
}
