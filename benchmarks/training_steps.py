"""Time of a training step: forward, backward and optimizer, float32, on a device against CPU.

python -m benchmarks.training_steps [--rounds 21] [names...]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.command import run_as_command
from benchmarks.paired import Work

# A round has several steps, as in a training run: in rounds of a single step half of the time goes
# into waking threads and into cold caches after the other side's turn.
ROUND_SECONDS = 0.5


class Mlp(nn.Sequential):
    """784 - 512 - 512 - 10."""

    def __init__(self) -> None:
        super().__init__(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut; the first one may halve the size."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


class ResNet18(nn.Sequential):
    """The residual network with 18 layers for images (N, 3, H, W) and 1,000 classes."""

    def __init__(self) -> None:
        stages: list[nn.Module] = []
        channels = 64
        for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            stages += [BasicBlock(channels, width, stride), BasicBlock(width, width, 1)]
            channels = width
        super().__init__(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
            *stages,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, 1000),
        )


class GptBlock(nn.Module):
    """Causal self-attention and a feed-forward layer, each with a normalization in front."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(x)


class Gpt(nn.Module):
    """4 layers of width 256 over tokens (N, up to 128); returns logits (N, length, 1,000)."""

    def __init__(self, tokens: int = 1000, length: int = 128, width: int = 256) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(GptBlock(width, heads=4) for _ in range(4)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, tokens))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.tokens(indices) + self.positions[: indices.shape[1]]))


def training(
    model: Callable[[], nn.Module],
    inputs: Callable[[], torch.Tensor],
    classes: int,
    *,
    compiled: bool = False,
) -> Work:
    """A step on one batch of random data; every output position has a class to learn."""

    def prepare(device: str) -> Callable[[], object]:
        torch.manual_seed(0)
        x = inputs()
        positions = x.shape if x.dtype == torch.int64 else x.shape[:1]
        y = torch.randint(classes, positions).flatten().to(device)
        x = x.to(device)
        net = model().to(device)
        if compiled:
            net.compile()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

        def step() -> None:
            loss = functional.cross_entropy(net(x).view(-1, classes), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        return step

    return prepare


def _digit_net() -> nn.Module:
    from examples.digits import DigitNet  # loads the device, which not every reference wants

    return DigitNet()


# Networks, shapes of their inputs, and numbers of classes.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], int]] = {
    "CNN of the demo": (_digit_net, lambda: torch.randn(64, 1, 8, 8), 10),
    "MLP": (Mlp, lambda: torch.randn(64, 784), 10),
    "ResNet-18, 8 x 3 x 64 x 64": (ResNet18, lambda: torch.randn(8, 3, 64, 64), 1000),
    "small GPT": (Gpt, lambda: torch.randint(1000, (8, 128)), 1000),
    "ResNet-18, 8 x 3 x 224 x 224": (ResNet18, lambda: torch.randn(8, 3, 224, 224), 1000),
}
WORKS: dict[str, Work] = {name: training(*network) for name, network in NETWORKS.items()}

if __name__ == "__main__":
    run_as_command(__doc__ or "", "benchmarks.training_steps", WORKS)
