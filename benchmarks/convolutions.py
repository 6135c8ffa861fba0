"""Time of every convolution of ResNet-18 by device kernels, in three directions, against CPU.

    python -m benchmarks.convolutions [--driver host] [--rounds 11] [--save NAME] [names...]

Batches of 8 images of 64 x 64 and of 224 x 224 pixels, float32. The reference is PyTorch on CPU,
which uses oneDNN. A direction is the forward, the gradient of the input or that of the weight, each
by itself. GFLOP/s count two operations for each product of the direct form, for every algorithm.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch

from benchmarks.paired import RESULTS, Ratio, Work, compare, environment

BATCH = 8
IMAGES = (64, 224)
DIRECTIONS = ("forward", "input", "weight")
ROUND_SECONDS = 0.04


@dataclass(frozen=True)
class Layer:
    channels: int
    features: int
    reduction: int  # size of the network's images over that of this layer's input
    kernel: int
    stride: int

    def name(self, image: int, direction: str) -> str:
        size = image // self.reduction
        words = f"{self.channels}->{self.features} {size}x{size} k{self.kernel} s{self.stride}"
        return f"{words} {direction}"

    def operations(self, image: int) -> int:
        """Products and sums of one direction."""
        positions = (image // self.reduction // self.stride) ** 2
        products = BATCH * positions * self.features * self.channels * self.kernel**2
        return 2 * products


LAYERS = [
    Layer(3, 64, 1, 7, 2),
    Layer(64, 64, 4, 3, 1),
    Layer(64, 128, 4, 3, 2),
    Layer(64, 128, 4, 1, 2),
    Layer(128, 128, 8, 3, 1),
    Layer(128, 256, 8, 3, 2),
    Layer(128, 256, 8, 1, 2),
    Layer(256, 256, 16, 3, 1),
    Layer(256, 512, 16, 3, 2),
    Layer(256, 512, 16, 1, 2),
    Layer(512, 512, 32, 3, 1),
]


def convolution(layer: Layer, image: int, direction: str, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    size = image // layer.reduction
    source = torch.randn(BATCH, layer.channels, size, size).to(device)
    weight = torch.randn(layer.features, layer.channels, layer.kernel, layer.kernel).to(device)
    options = ([layer.stride] * 2, [layer.kernel // 2] * 2, [1, 1], False, [0, 0], 1)
    forward = torch.ops.aten.convolution
    if direction == "forward":
        return lambda: forward(source, weight, None, *options)
    gradient = torch.ones(forward(source, weight, None, *options).shape).to(device)
    mask = [direction == "input", direction == "weight", False]
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(gradient, source, weight, None, *options, mask)


CASES = {
    layer.name(image, direction): (layer, image, direction)
    for image in IMAGES
    for layer in LAYERS
    for direction in DIRECTIONS
}
WORKS: dict[str, Work] = {name: partial(convolution, *case) for name, case in CASES.items()}


def summary(results: list[Ratio]) -> str:
    """Median and worst ratio, and times in all."""
    ratios = [r.ratio for r in results]
    device, reference = (
        sum(getattr(r, side) for r in results) for side in ("device_seconds", "reference_seconds")
    )
    return (
        f"median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, "
        f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}; "
        f"all together {device * 1e3:.0f} ms against {reference * 1e3:.0f} ms"
    )


def table(results: list[Ratio]) -> list[str]:
    lines = [
        "| convolution | device | CPU | ratio | 95 % interval | GFLOP/s | CPU's |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        layer, image, _ = CASES[r.name]
        speeds = [
            layer.operations(image) / s / 1e9 for s in (r.device_seconds, r.reference_seconds)
        ]
        times = [f"{seconds * 1e3:.3g} ms" for seconds in (r.device_seconds, r.reference_seconds)]
        lines.append(
            f"| {r.name} | {times[0]} | {times[1]} | {r.ratio:.2f} | {r.low:.2f} to {r.high:.2f} "
            f"| {speeds[0]:.0f} | {speeds[1]:.0f} |"
        )
    return lines


def compiler(driver: str) -> str:
    """The compiler of kernels for the driver's devices, if the driver names it."""
    if driver != "host":
        return ""
    from torch_outboard.drivers import host

    command_left_out: str = host.describe().partition("(")[2]  # it is a path
    return command_left_out.replace(")", "", 1) or host.describe()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names, such as 'k7' or '56x56 k3'")
    parser.add_argument("--driver", default="host")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--save", metavar="NAME", help="name of the files below benchmarks/results")
    options = parser.parse_args()
    names = [n for n in WORKS if not options.names or any(part in n for part in options.names)]
    if not names:
        parser.error("no convolution has such a name")
    settings = {
        "OUTBOARD_DRIVER": options.driver,
        "OUTBOARD_PLACEMENT": "device",
        "OUTBOARD_FALLBACK_COPIED": "allow",
    }
    results = compare(
        names,
        device=options.driver,
        rounds=options.rounds,
        module="benchmarks.convolutions",
        environment=settings,
    )
    lines = table(results)
    found = [("all", results)]
    for part in (*DIRECTIONS, "k3 s1", "k3 s2", "k1", "k7"):
        found.append((part, [r for r in results if part in r.name]))
    ends = [f"- {part}: {summary(some)}" for part, some in found if some]
    print("\n".join([*lines, "", *ends]))
    if options.save:
        surroundings = environment() | {
            "driver": options.driver,
            "compiler": compiler(options.driver),
            "rounds": options.rounds,
        }
        content = {"environment": surroundings, "results": [asdict(r) for r in results]}
        path = RESULTS / f"{options.save}.json"
        path.write_text(json.dumps(content, indent=2) + "\n")
        head = ["# Convolutions of ResNet-18", ""]
        head += [f"- {key}: {value}" for key, value in surroundings.items()]
        path.with_suffix(".md").write_text("\n".join([*head, "", *ends, "", *lines]) + "\n")
        print(f"written to {path} and .md")


if __name__ == "__main__":
    main()
