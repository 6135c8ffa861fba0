"""Small models whose training steps are compiled: each with a batch and a loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.training_steps import Gpt, Mlp, ResNet18

# Makes a model, its inputs with the target last, and the loss of output and target.
Model = Callable[[], tuple[nn.Module, list[Tensor], Callable[[Tensor, Tensor], Tensor]]]


class Bert(nn.Module):
    """2 layers of width 128 over tokens (N, length), with a classifier of the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(1000, 128), nn.Embedding(128, 128)
        self.norm = nn.LayerNorm(128)
        layer = nn.TransformerEncoderLayer(128, 2, 512, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 10)

    def forward(self, indices: Tensor) -> Tensor:
        places = torch.arange(indices.shape[1], device=indices.device)
        return self.head(
            self.layers(self.norm(self.tokens(indices) + self.positions(places)))[:, 0]
        )


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Two levels down and up again, 32 and 64 channels, for images (N, 3, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = _twice(3, 32), _twice(32, 64), _twice(96, 32)
        self.head = nn.Conv2d(32, 4, 1)

    def forward(self, images: Tensor) -> Tensor:
        high = self.down(images)
        low = self.middle(functional.max_pool2d(high, 2))
        back = functional.interpolate(low, scale_factor=2.0, mode="nearest")
        return self.head(self.up(torch.cat((high, back), 1)))


class Lstm(nn.Module):
    """A layer of 128 cells over tokens (N, length); returns logits of the next ones."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.cells = nn.Embedding(500, 128), nn.LSTM(128, 128, batch_first=True)
        self.head = nn.Linear(128, 500)

    def forward(self, indices: Tensor) -> Tensor:
        return self.head(self.cells(self.tokens(indices))[0])


def _classes(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.flatten())


def _made(model: Callable[[], nn.Module], make: Callable[[], list[Tensor]],
          loss: Callable[[Tensor, Tensor], Tensor] = _classes) -> Model:  # fmt: skip
    def prepare() -> tuple[nn.Module, list[Tensor], Callable[[Tensor, Tensor], Tensor]]:
        torch.manual_seed(0)
        return model(), make(), loss

    return prepare


def _tokens(count: int, *shape: int) -> Tensor:
    return torch.randint(count, shape)


MODELS: dict[str, Model] = {
    "MLP": _made(Mlp, lambda: [torch.randn(64, 784), _tokens(10, 64)]),
    "ResNet-18, 8 x 3 x 64 x 64": _made(
        ResNet18, lambda: [torch.randn(8, 3, 64, 64), _tokens(1000, 8)]
    ),
    "small GPT": _made(Gpt, lambda: [_tokens(1000, 8, 128), _tokens(1000, 8, 128)]),
    "tiny BERT": _made(Bert, lambda: [_tokens(1000, 8, 64), _tokens(10, 8)]),
    "U-Net": _made(
        UNet, lambda: [torch.randn(2, 3, 64, 64), torch.randn(2, 4, 64, 64)], functional.mse_loss
    ),
    "LSTM": _made(Lstm, lambda: [_tokens(500, 16, 32), _tokens(500, 16, 32)]),
    "ResNet-18, 8 x 3 x 224 x 224": _made(
        ResNet18, lambda: [torch.randn(8, 3, 224, 224), _tokens(1000, 8)]
    ),
}
