"""Programs that have the last word where ways are chosen: small ones, as many people have.

Calls that are faster by one way do not make a program faster, because Python works beside the
device, and a change of ways waits for it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from torch_outboard.tuning.representative_calls import Run

CLASSES = 10
TOKENS = 1000


def _training(model: nn.Module, x: torch.Tensor, classes: int, device: torch.device) -> Run:
    """Steps of AdamW on one batch; the model returns logits (..., classes)."""
    model, x = model.to(device), x.to(device)
    outputs = x.shape if x.dtype == torch.int64 else x.shape[:1]
    y = torch.randint(classes, (outputs.numel(),), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(x).flatten(0, -2), y).backward()
        optimizer.step()

    return step


def _inference(model: nn.Module, x: torch.Tensor, device: torch.device) -> Run:
    """Passes without gradients over one batch."""
    model, x = model.eval().to(device), x.to(device)

    def run() -> None:
        with torch.inference_mode():
            model(x)

    return run


def _perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(512, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, CLASSES),
    )  # fmt: skip


def _convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES),
    )  # fmt: skip


def perceptron(device: torch.device) -> Run:
    """A network with two hidden layers: many small operators, some larger ones."""
    return _training(_perceptron(), torch.rand(64, 512), CLASSES, device)


def convolutional(device: torch.device) -> Run:
    """Convolutions, batch norms of 1M to 65K elements, and pooling."""
    return _training(_convolutional(), torch.rand(8, 3, 64, 64), CLASSES, device)


class _Transformer(nn.Module):
    """An embedding, a layer of causal self-attention with what belongs to it, and logits."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.logits = nn.Linear(width, TOKENS)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        x = self.tokens(indices)
        joined = self.queries_keys_values(x).unflatten(-1, (3, 4, -1))
        query, key, value = joined.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.transpose(1, 2).flatten(2)
        logits: torch.Tensor = self.logits(x + self.feed_forward(x))
        return logits


def transformer(device: torch.device) -> Run:
    """A layer of a transformer over 8 x 64 tokens."""
    return _training(_Transformer(), torch.randint(TOKENS, (8, 64)), TOKENS, device)


def _passes(model: Callable[[], nn.Module], x: torch.Tensor) -> Callable[[torch.device], Run]:
    return lambda device: _inference(model(), x, device)


PROGRAMS: dict[str, Callable[[torch.device], Run]] = {
    "perceptron, training": perceptron,
    "convolutional, training": convolutional,
    "transformer, training": transformer,
    "perceptron, inference": _passes(_perceptron, torch.zeros(64, 512)),
    "convolutional, inference": _passes(_convolutional, torch.zeros(8, 3, 64, 64)),
    "transformer, inference": _passes(_Transformer, torch.zeros(8, 64, dtype=torch.int64)),
}
