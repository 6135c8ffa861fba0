"""Small networks in plain PyTorch for the first training step of a process: `NETWORKS`.

Each is a function of a device that returns a training step, and each has operators that others
lack: relative positions, images that are scaled up and joined, tokens that are routed to experts.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.training_steps import Gpt, ResNet18

Step = Callable[[int], None]


class RelativeAttention(nn.Module):
    """Attention with a learned bias for each distance, as in T5."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.bias = nn.Embedding(32, heads)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        query, key, value = split(self.query(x)), split(self.key(memory)), split(self.value(memory))
        rows = torch.arange(x.shape[1], device=x.device)[:, None]
        columns = torch.arange(memory.shape[1], device=x.device)[None, :]
        distance = (columns - rows).abs()
        far = 8 + (torch.log(distance.float().clamp(min=1) / 8) * 4).long()
        bucket = torch.where(distance < 8, distance, far.clamp(max=15)) + 16 * (columns > rows)
        scores = query @ key.transpose(2, 3) + self.bias(bucket).permute(2, 0, 1)[None]
        if self.causal:
            scores = scores.masked_fill(columns > rows, torch.finfo(x.dtype).min)
        weights = functional.softmax(scores.float(), dim=-1).type_as(scores)
        return self.output((functional.dropout(weights, 0.1) @ value).transpose(1, 2).flatten(2))


class RootMeanSquareNorm(nn.Module):
    """Scales by the root of the mean square, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


class EncoderDecoder(nn.Module):
    """Two layers of encoder and decoder, as in T5: tokens (N, L) to logits (N, M, 128)."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(128, width)
        attention = [RelativeAttention(width, heads, causal) for causal in (False, True, False)]
        self.encoder, self.decoder, self.cross = attention
        self.norms = nn.ModuleList(RootMeanSquareNorm(width) for _ in range(5))
        self.gate, self.up = nn.Linear(width, 128, bias=False), nn.Linear(width, 128, bias=False)
        self.down = nn.Linear(128, width, bias=False)

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.gelu(self.gate(x), approximate="tanh") * self.up(x)
        return x + functional.dropout(self.down(hidden), 0.1)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.tokens(source)
        x = self.feed_forward(x + self.encoder(self.norms[0](x), self.norms[0](x)))
        memory = self.norms[1](x)
        y = self.tokens(target)
        y = y + self.decoder(self.norms[2](y), self.norms[2](y))
        y = self.feed_forward(y + self.cross(self.norms[3](y), memory))
        return functional.linear(self.norms[4](y) * 64**-0.5, self.tokens.weight)


class ConvolutionBlock(nn.Sequential):
    """Convolution, batch normalization, SiLU."""

    def __init__(self, inputs: int, outputs: int, size: int = 3, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.SiLU(),
        )


class Detector(nn.Module):
    """A pyramid of two scales for images (N, 3, H, W): per cell a box, its certainty, 4 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down = ConvolutionBlock(3, 16, stride=2), ConvolutionBlock(16, 32, stride=2)
        self.deep = ConvolutionBlock(32, 64, stride=2)
        self.pooling = nn.MaxPool2d(5, 1, 2)
        self.narrow = ConvolutionBlock(128, 32, 1)
        self.join = ConvolutionBlock(64, 32)
        self.heads = nn.ModuleList(nn.Conv2d(32, 9, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.down(self.stem(x))
        coarse = self.deep(fine)
        coarse = self.narrow(torch.cat((coarse, self.pooling(coarse)), 1))
        left, right = self.join(
            torch.cat((functional.interpolate(coarse, scale_factor=2), fine), 1)
        ).chunk(2, 1)
        fine = torch.cat((left + right, right), 1)
        levels = (head(y) for head, y in zip(self.heads, (fine, coarse), strict=True))
        return torch.cat([level.flatten(2) for level in levels], 2).transpose(1, 2)


def box_loss(predicted: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Overlap of boxes, certainty and classes; the best cells stand for each image."""
    corner = predicted[..., :2].sigmoid() * 2 - 0.5
    size = (predicted[..., 2:4].sigmoid() * 2) ** 2
    low = torch.maximum(corner - size / 2, wanted[..., :2] - wanted[..., 2:4] / 2)
    high = torch.minimum(corner + size / 2, wanted[..., :2] + wanted[..., 2:4] / 2)
    shared = (high - low).clamp(0).prod(-1)
    overlap = shared / (size.prod(-1) + wanted[..., 2:4].prod(-1) - shared + 1e-7)
    best = overlap.detach().topk(8, 1).indices
    certain = torch.zeros_like(overlap).scatter_(1, best, 1.0)
    objects = functional.binary_cross_entropy_with_logits(predicted[..., 4], certain)
    classes = functional.binary_cross_entropy_with_logits(predicted[..., 5:], wanted[..., 4:])
    return (1 - overlap.gather(1, best)).mean() + objects + classes


class ExpertLayer(nn.Module):
    """Each token goes to two of four experts, as in Mixtral."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, 4, bias=False)
        self.up, self.gate, self.down = (
            nn.Parameter(torch.randn(4, *shape) * 0.05)
            for shape in ((width, 96), (width, 96), (96, width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(tokens).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        mask = functional.one_hot(chosen, 4).permute(2, 1, 0)
        result = torch.zeros_like(tokens)
        for expert in range(4):
            choice, token = torch.where(mask[expert])
            part = tokens[token]
            hidden = functional.silu(part @ self.gate[expert]) * (part @ self.up[expert])
            result.index_add_(0, token, hidden @ self.down[expert] * weights[token, choice, None])
        return result.view_as(x)


class ExpertTransformer(nn.Module):
    """Two layers of rotary attention and experts: tokens (N, L) to logits (N, L, 128)."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.tokens, self.last = nn.Embedding(128, width), nn.Linear(width, 128, bias=False)
        self.norms = nn.ModuleList(RootMeanSquareNorm(width) for _ in range(5))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.experts = nn.ModuleList(ExpertLayer(width) for _ in range(2))

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        steps = torch.arange(half, device=x.device, dtype=torch.float32) / half
        positions = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
        angles = torch.outer(positions, 1e4**-steps).repeat(1, 2)
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * angles.cos() + turned * angles.sin()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for i in range(2):
            batch, length, width = x.shape
            qkv = self.qkv[i](self.norms[2 * i](x)).view(batch, length, 3, self.heads, -1)
            query, key, value = qkv.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(
                self.rotate(query), self.rotate(key), value, is_causal=True
            )
            x = x + mixed.transpose(1, 2).reshape(batch, length, width)
            x = x + self.experts[i](self.norms[2 * i + 1](x))
        return self.last(self.norms[4](x))


Loss = Callable[[nn.Module, int], torch.Tensor]


def _trained(model: nn.Module, loss: Loss) -> Step:
    """A step with clipped gradients and AdamW; its argument is the batch size."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(batch: int) -> None:
        optimizer.zero_grad()
        loss(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def _tokens(batch: int, length: int, device: str) -> torch.Tensor:
    return torch.randint(0, 128, (batch, length)).to(device)


def _cross_entropy(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1))


def _t5(device: str) -> Step:
    def loss(model: nn.Module, batch: int) -> torch.Tensor:
        wanted = _tokens(batch, 12, device)
        return _cross_entropy(model(_tokens(batch, 24, device), wanted), wanted)

    return _trained(EncoderDecoder().to(device), loss)


def _yolo(device: str) -> Step:
    def loss(model: nn.Module, batch: int) -> torch.Tensor:
        wanted = torch.rand(batch, 1, 8).to(device).expand(batch, 320, 8)
        return box_loss(model(torch.randn(batch, 3, 64, 64).to(device)), wanted)

    return _trained(Detector().to(device), loss)


def _language_model(model: nn.Module, device: str) -> Step:
    def loss(model: nn.Module, batch: int) -> torch.Tensor:
        tokens = _tokens(batch, 33, device)
        return _cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])

    return _trained(model.to(device), loss)


def _resnet18(device: str) -> Step:
    def loss(model: nn.Module, batch: int) -> torch.Tensor:
        images = torch.randn(batch, 3, 64, 64).to(device)
        return _cross_entropy(model(images), torch.randint(0, 1000, (batch,)).to(device))

    return _trained(ResNet18().to(device), loss)


NETWORKS: dict[str, Callable[[str], Step]] = {
    "T5": _t5,
    "YOLO": _yolo,
    "Mixtral": lambda device: _language_model(ExpertTransformer(), device),
    "ResNet-18": _resnet18,
    "GPT": lambda device: _language_model(Gpt(128, 64, 64), device),
}
