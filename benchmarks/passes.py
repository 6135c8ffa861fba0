"""What each pass of `torch_outboard.inductor` over graphs gains: time with it over time without it.

    python -m benchmarks.passes [--device ocl] [--rounds 11] [--save NAME] [passes...]

Each pass is measured on compiled training steps that it changes. Both sides run on the device; the
process of the second one replaces the pass with a function that changes nothing, and Inductor's
caches are off in both.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from benchmarks.compiled_models import MODELS, Model
from benchmarks.paired import Ratio, Work, compare, save

ROUND_SECONDS = 0.2
_WITHOUT = "BENCHMARK_WITHOUT"

# By pass: its module, its function, what that returns where it is left out, and networks.
PASSES: dict[str, tuple[str, str, Callable[..., object], tuple[str, ...]]] = {
    "known_indices": (
        "passes.known_indices", "repeat_by_views", lambda graph: None, ("U-Net",)
    ),
    "joined_parts": (
        "passes.joined_parts", "join_parts", lambda graph: None, ("small GPT", "tiny BERT")
    ),
    "sums_by_rows": (
        "passes.sums_by_rows", "sum_rows_first", lambda graph: None, ("U-Net", "bottleneck")
    ),
    "reused_values": (
        "passes.reused_values", "store_reused", lambda graph: None, ("small GPT", "SiLU")
    ),
    "merge_small_kernels": (
        "wrapper", "merge_small_kernels", lambda wrapper, lines, kernels: lines,
        ("MLP", "tiny BERT", "LSTM"),
    ),
}  # fmt: skip


class _Bottleneck(nn.Module):
    """A residual block of convolutions with biases on images (N, 32, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(32, 16, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class _Silu(nn.Module):
    """Convolutions, batch norms and SiLU, as in detectors, on images (N, 3, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(inputs, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.SiLU()
                )
                for inputs in (3, 32, 32)
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def _of_images(model: Callable[[], nn.Module], channels: int) -> Model:
    images, target = torch.randn(4, channels, 64, 64), torch.randn(4, 32, 64, 64)
    return lambda: (model(), [images, target], functional.mse_loss)


_MODELS: dict[str, Model] = {
    **MODELS,
    "bottleneck": _of_images(_Bottleneck, 32),
    "SiLU": _of_images(_Silu, 3),
}


def _work(name: str) -> Work:
    def make(device: str) -> Callable[[], object]:
        torch._inductor.config.force_disable_caches = True
        if left_out := os.environ.get(_WITHOUT):
            module, function, instead, _ = PASSES[left_out]
            found = importlib.import_module(f"torch_outboard.inductor.{module}")
            setattr(found, function, instead)
        torch.manual_seed(0)
        model, inputs, loss = _MODELS[name]()
        net, given = model.to(device), [x.to(device) for x in inputs]
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
        forward = torch.compile(net)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            loss(forward(*given[:-1]), given[-1]).backward()
            optimizer.step()

        return step

    return make


WORKS: dict[str, Work] = {name: _work(name) for name in _MODELS}


def measure(name: str, device: str, rounds: int) -> list[Ratio]:
    """The ratios of a pass, with it over without it, by network."""
    settings = {"OUTBOARD_DRIVER": device, "OUTBOARD_FALLBACK_COPIED": "allow"}
    results = compare(
        PASSES[name][3],
        device=device,
        reference=f"{device}:0",  # the same device by another name
        rounds=rounds,
        module="benchmarks.passes",
        environment=settings,
        reference_environment={**settings, _WITHOUT: name},
    )
    return [replace(result, name=f"{name}, {result.name}") for result in results]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("passes", nargs="*", help=f"of: {', '.join(PASSES)}")
    parser.add_argument("--device", default=os.environ.get("OUTBOARD_DRIVER", "ocl"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--save", default="", help="a name in benchmarks/results")
    options = parser.parse_args()
    results = []
    for name in options.passes or PASSES:
        print(f"\n{name}")
        results += measure(name, options.device, options.rounds)
    if options.save:
        print("written to", save(options.save, results))


if __name__ == "__main__":
    main()
