"""Small networks of the kinds that people train, written with PyTorch alone.

None has an edge (as a ReLU has) at which rounding decides between two gradients, and none has
dropout, because a device draws other numbers than CPU.
"""

import torch
from torch import nn
from torch.nn import functional


class RootMeanSquare(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotated(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    """Rotary positions, by complex numbers."""
    half = x.size(-1) // 2
    frequencies = 100.0 ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
    positions = torch.arange(start, start + x.size(-2), device=x.device, dtype=x.dtype)
    angles = torch.outer(positions, frequencies)
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.unflatten(-1, (half, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2)


class Llama(nn.Module):
    """Grouped queries, rotary positions, gated linear units, RMS norms, tied embeddings."""

    def __init__(self, words: int = 20, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            layer = nn.ModuleDict({"first": RootMeanSquare(width), "second": RootMeanSquare(width)})
            sizes = {"q": width, "k": width // 2, "v": width // 2, "gate": 32, "up": 32}
            for name, size in sizes.items():
                layer[name] = nn.Linear(width, size, bias=False)
            layer["out"] = nn.Linear(width, width, bias=False)
            layer["down"] = nn.Linear(32, width, bias=False)
            self.layers.append(layer)
        self.last = RootMeanSquare(width)
        self.scores = nn.Linear(width, words, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        for layer in self.layers:
            y = layer["first"](x)
            q, k, v = (layer[n](y).unflatten(-1, (-1, 4)).transpose(1, 2) for n in "qkv")
            q, k = rotated(q), rotated(k)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + layer["out"](y.transpose(1, 2).flatten(2))
            y = layer["second"](x)
            x = x + layer["down"](functional.silu(layer["gate"](y)) * layer["up"](y))
        return self.scores(self.last(x))


class UNet(nn.Module):
    """Predicts the noise in images at a time: down and up with links across, and attention."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.time = nn.Sequential(
            nn.Linear(8, channels), nn.SiLU(), nn.Linear(channels, 2 * channels)
        )
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * channels)
        self.attention = nn.MultiheadAttention(2 * channels, 2, batch_first=True)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1)
        self.join = nn.Sequential(
            nn.GroupNorm(4, 2 * channels), nn.SiLU(), nn.Conv2d(2 * channels, 3, 1)
        )

    def forward(self, images: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        waves = times[:, None] * 10 ** (-torch.arange(4, device=times.device, dtype=times.dtype))
        time = self.time(torch.cat([waves.sin(), waves.cos()], 1))
        first = functional.silu(self.first(images))
        second = self.norm(self.down(first)) + time[:, :, None, None]
        flat = second.flatten(2).transpose(1, 2)
        flat = flat + self.attention(flat, flat, flat, need_weights=False)[0]
        second = functional.silu(flat.transpose(1, 2).unflatten(2, second.shape[2:]))
        wide = functional.interpolate(
            functional.avg_pool2d(second, 2), scale_factor=2, mode="bilinear", align_corners=False
        )
        return self.join(torch.cat([first, self.up(second + wide)], 1))


class GraphNetwork(nn.Module):
    """Messages along edges, summed at the nodes, by sparse products, scatters and attention."""

    def __init__(self, inputs: int = 5, width: int = 12, classes: int = 3) -> None:
        super().__init__()
        self.convolution = nn.Linear(inputs, width)
        self.message = nn.Linear(2 * width, width)
        self.score = nn.Linear(2 * width, 1)
        self.last = nn.Linear(3 * width, classes)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        nodes, (sources, targets) = x.size(0), edges
        ones = torch.ones_like(sources, dtype=x.dtype)
        degree = torch.zeros(nodes, device=x.device, dtype=x.dtype).scatter_add(0, targets, ones)
        weights = degree.clamp(min=1).rsqrt()
        values = weights[sources] * weights[targets]
        adjacency = torch.sparse_coo_tensor(torch.stack([targets, sources]), values, (nodes, nodes))
        first = torch.tanh(torch.sparse.mm(adjacency, self.convolution(x)))
        pairs = torch.cat([first[sources], first[targets]], 1)
        raw = functional.silu(self.score(pairs)).squeeze(1)
        top = torch.full((nodes,), -1e9, device=x.device, dtype=x.dtype)
        top = top.scatter_reduce(0, targets, raw.detach(), "amax")
        raw = (raw - top[targets]).exp()
        total = torch.zeros(nodes, device=x.device, dtype=x.dtype).index_add(0, targets, raw)
        messages = self.message(pairs).tanh() * (raw / total[targets])[:, None]
        second = first + torch.zeros_like(first).index_add(0, targets, messages)
        graphs = int(graph.max()) + 1
        indices = graph[:, None].expand_as(second)
        start = torch.zeros(graphs, second.size(1), device=x.device, dtype=x.dtype)
        pools = [
            start.scatter_reduce(0, indices, second, how, include_self=False)
            for how in ("mean", "sum", "amax")
        ]
        return self.last(torch.cat(pools, 1))
