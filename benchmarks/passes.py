"""The gain of each pass of `torch_outboard.inductor` over graphs: time with it over time without.

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

from benchmarks.compiled_graphs import chain
from benchmarks.compiled_models import MODELS, Model
from benchmarks.paired import Ratio, Work, compare, save

ROUND_SECONDS = 0.2
_WITHOUT = "BENCHMARK_WITHOUT"

# By pass: its module, its function, the function's result when it is left out, and networks.
PASSES: dict[str, tuple[str, str, Callable[..., object], tuple[str, ...]]] = {
    "interpolation": (
        "lowerings.interpolation", "whole_factors", lambda *arguments: None,
        ("U-Net", "upsampling"),
    ),
    "merge_small_kernels": (
        "wrapper", "merge_small_kernels", lambda wrapper, lines, kernels: lines,
        ("small kernels",),
    ),
    "hoist": (
        "kernel.units", "hoist", lambda text, pointers, numbers: ("", text), ("Adam",)
    ),
    "units_together": (
        "kernel.units", "units_together", lambda kernel: None, ("interpolation",)
    ),
    "repeated loads": (
        "kernel.indices", "repeats_across_lanes", lambda index, root, lanes: 0, ("upsampling",)
    ),
}  # fmt: skip


class _Scaled(nn.Module):
    """Images (N, 16, H, W), each channel scaled before and after a function."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.before, self.after = (nn.Parameter(torch.ones(16, 1, 1)) for _ in range(2))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.function(x * self.before) * self.after
        return result


def _nearest(x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def _bilinear(x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="bilinear")


def _of_images(model: Callable[[], nn.Module], channels: int, *target: int) -> Model:
    given = [torch.randn(4, channels, 64, 64), torch.randn(4, *target)]
    return lambda: (model(), given, functional.mse_loss)


_MODELS: dict[str, Model] = {
    **MODELS,
    "upsampling": _of_images(lambda: _Scaled(_nearest), 16, 16, 128, 128),
    "interpolation": _of_images(lambda: _Scaled(_bilinear), 16, 16, 128, 128),
}


def _leave_out() -> None:
    torch._inductor.config.force_disable_caches = True
    if left_out := os.environ.get(_WITHOUT):
        module, function, instead, _ = PASSES[left_out]
        found = importlib.import_module(f"torch_outboard.inductor.{module}")
        setattr(found, function, instead)
    torch.manual_seed(0)


def _work(name: str) -> Work:
    def make(device: str) -> Callable[[], object]:
        _leave_out()
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


def _adam(device: str) -> Callable[[], object]:
    """A compiled step of Adam over 8 tensors of 2**18 elements."""
    _leave_out()
    parameters = [nn.Parameter(torch.randn(1 << 18, device=device)) for _ in range(8)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return torch.compile(torch.optim.Adam(parameters, lr=1e-4).step)


def _small_kernels(device: str) -> Callable[[], object]:
    """A compiled chain of 50 kernels of 1024 values."""
    _leave_out()
    compiled, x = torch.compile(chain), torch.randn(32, 32, device=device)
    return lambda: compiled(x)


WORKS: dict[str, Work] = {name: _work(name) for name in _MODELS} | {
    "Adam": _adam,
    "small kernels": _small_kernels,
}


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
