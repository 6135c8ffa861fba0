"""The measured work: operators on few elements, and steps of a small network."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch.nn import functional

Call = Callable[[], object]


def chain(device: str) -> Call:
    x, values = torch.ones(16, device=device), [torch.ones(16, device=device)]

    def call() -> None:
        values[0] = values[0] + x

    return call


def on_vectors(function: Callable[[torch.Tensor, torch.Tensor], object]) -> Callable[[str], Call]:
    def prepare(device: str) -> Call:
        x, y = torch.ones(16, device=device), torch.ones(16, device=device)
        return lambda: function(x, y)

    return prepare


def by_indices(function: Callable[..., object]) -> Callable[[str], Call]:
    """A call with a vector, an index of each of its elements, and a second vector."""

    def prepare(device: str) -> Call:
        x, y = torch.ones(16, device=device), torch.ones(16, device=device)
        indices = torch.arange(16, device=device)
        return lambda: function(x, indices, y)

    return prepare


def into_output(device: str) -> Call:
    x, y, out = (torch.ones(16, device=device) for _ in range(3))
    return lambda: torch.mul(x, y, out=out)


def product(device: str) -> Call:
    bias, x, weight = (torch.ones(shape, device=device) for shape in ((8,), (4, 8), (8, 8)))
    return lambda: torch.addmm(bias, x, weight)


def training_step(dtype: torch.dtype) -> Callable[[str], Call]:
    """A step of an MLP with AdamW; other dtypes than float32 by autocast."""

    def prepare(device: str) -> Call:
        sizes = (16, 32, 32, 8)
        layers: list[torch.nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
        net = torch.nn.Sequential(*layers[:-1]).to(device)
        x = torch.ones(4, sizes[0], device=device)
        y = torch.zeros(4, dtype=torch.int64, device=device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

        def step() -> None:
            with torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32):
                loss = functional.cross_entropy(net(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        return step

    return prepare


WORKS: dict[str, Callable[[str], Call]] = {
    "y = y + x": chain,
    "mul into out": into_output,
    "x.add_(y)": on_vectors(lambda x, y: x.add_(y)),
    "x + 1.0": on_vectors(lambda x, y: x + 1.0),
    "x.sum()": on_vectors(lambda x, y: x.sum()),
    "softmax": on_vectors(lambda x, y: torch.softmax(x, 0)),
    "layer norm": on_vectors(lambda x, y: torch.layer_norm(x, (x.numel(),))),
    "gather": by_indices(lambda x, i, y: x.gather(0, i)),
    "scatter_add": by_indices(lambda x, i, y: x.scatter_add(0, i, y)),
    "cumsum": on_vectors(lambda x, y: x.cumsum(0)),
    "addmm": product,
    "empty_like": on_vectors(lambda x, y: torch.empty_like(x)),
    "step of an MLP": training_step(torch.float32),
    "the same, autocast to bfloat16": training_step(torch.bfloat16),
}
