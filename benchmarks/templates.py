"""Times of compiled layers in one kernel (`max-autotune`) against a kernel for what follows them.

    OUTBOARD_PLACEMENT=device python -m benchmarks.templates [--device ocl] [--rounds 21] [names...]

Each layer is compiled to both, whatever measuring would choose, and both run in turns in one
process; printed are the least times, the median of the ratios with its interval, and what measuring
chose in this process. Convolutions are those of networks for images, in inference; "GELU, kept" is
a layer whose sum is stored as well, as in training.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.paired import Ratio, median_interval, save
from benchmarks.training_steps import ResNet18

Layer = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Block(nn.Module):
    """A convolution, a batch norm, what was there before, an activation."""

    def __init__(self, convolution: nn.Conv2d, activation: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, nn.BatchNorm2d(convolution.out_channels)
        self.activation = activation

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        result = self.norm(self.convolution(x))
        return self.activation(result if other is None else result + other)


class Kept(nn.Module):
    """A linear layer with GELU, and its sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(256, 1024)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.layer(x)
        return F.gelu(result), result


def _block(
    sizes: tuple[int, ...], out: int, kernel: int, activation: Callable[..., torch.Tensor] = F.relu,
    *, residual: bool = False, **rest: int,
) -> Layer:  # fmt: skip
    given = {"padding": kernel // 2, "bias": False, **rest}
    block = Block(nn.Conv2d(sizes[1], out, kernel, **given), activation)
    x = torch.randn(sizes)
    with torch.no_grad():
        others = (torch.randn_like(block.convolution(x)),) if residual else ()
    return block.eval(), (x, *others)


LAYERS: dict[str, Callable[[], Layer]] = {
    "7 x 7, step 2": lambda: _block((4, 3, 112, 112), 64, 7, stride=2),
    "3 x 3": lambda: _block((4, 64, 56, 56), 64, 3),
    "3 x 3, residual": lambda: _block((4, 64, 56, 56), 64, 3, residual=True),
    "3 x 3, step 2": lambda: _block((4, 64, 56, 56), 128, 3, stride=2),
    "3 x 3, small maps": lambda: _block((4, 256, 7, 7), 256, 3, residual=True),
    "1 x 1, SiLU": lambda: _block((4, 64, 56, 56), 128, 1, F.silu),
    "1 x 1, GELU": lambda: _block((4, 96, 28, 28), 384, 1, F.gelu),
    "depthwise, ReLU6": lambda: _block((4, 96, 56, 56), 96, 3, F.relu6, groups=96),
    "3 x 3, channels last": lambda: _block((4, 64, 56, 56), 64, 3),
    "ResNet-18": lambda: (ResNet18().eval(), (torch.randn(4, 3, 64, 64),)),
    "GELU, kept": lambda: (Kept(), (torch.randn(2048, 256),)),
}


def compiled(
    model: nn.Module, given: list[torch.Tensor], fused: bool | None
) -> tuple[Callable[[], object], list[bool]]:
    """A call of a model compiled by templates, without them, or (None) by what measuring says.

    Besides, what measuring said.
    """
    from torch_outboard.inductor.lowerings import convolutions, products

    def call() -> object:
        return model(*given)

    # Dynamo knows compiled functions by their code, and would take one for the other.
    call.__code__ = call.__code__.replace(co_firstlineno=1000 + (fused is True))
    graph = torch.compile(call, mode="default" if fused is False else "max-autotune-no-cudagraphs")
    chosen: list[bool] = []

    def recording(function: Callable[..., bool]) -> Callable[..., bool]:
        def measured(*given: object) -> bool:
            chosen.append(fused is True or function(*given))
            return chosen[-1]

        return measured

    with (
        patch.object(convolutions, "_measured", recording(convolutions._measured)),
        patch.object(products, "_measured", recording(products._measured)),
        torch._inductor.config.patch(force_disable_caches=True),
    ):
        graph()
    return graph, chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of: {', '.join(LAYERS)}")
    parser.add_argument("--device", default=os.environ.get("OUTBOARD_DRIVER", "ocl"))
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--save", default="", help="a name in benchmarks/results")
    options = parser.parse_args()
    if unknown := set(options.names) - set(LAYERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    results = []
    for name in options.names or LAYERS:
        torch.manual_seed(0)
        model, inputs = LAYERS[name]()
        given = [x.to(options.device) for x in inputs]
        if "channels last" in name:
            given[0] = given[0].contiguous(memory_format=torch.channels_last)
        model.to(options.device)
        with torch.no_grad():
            results.append(measure(name, model, given, options.rounds))
    if options.save:
        print("written to", save(options.save, results))


def measure(name: str, model: nn.Module, given: list[torch.Tensor], rounds: int) -> Ratio:
    """Prints a line, and returns the time in one kernel over that in two."""
    torch.compiler.reset()
    _, chosen = compiled(model, given, None)
    torch.compiler.reset()
    sides = [compiled(model, given, fused)[0] for fused in (True, False)]
    times: list[list[float]] = [[], []]
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            torch.accelerator.synchronize()
            start = time.perf_counter()
            sides[which]()
            torch.accelerator.synchronize()
            times[which].append(time.perf_counter() - start)
    ratio, low, high = median_interval([a / b for a, b in zip(*times, strict=True)])
    least = [min(taken) * 1e3 for taken in times]
    print(
        f"{name:24} fused {least[0]:8.3f} ms, separate {least[1]:8.3f} ms, ratio {ratio:.3f} "
        f"[{low:.3f}, {high:.3f}], chosen {sum(chosen)} of {len(chosen)}",
        flush=True,
    )
    fused, separate = map(median, times)
    return Ratio(f"{name}, fused / separate", fused, separate, ratio, low, high, rounds)


if __name__ == "__main__":
    main()
