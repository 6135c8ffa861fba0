"""What way `auto` costs against the better of the forced ways, for ten programs.

    python -m benchmarks.ways [--rounds 15] [--limit 1.05] [--save] [names...]

Six training steps and four passes of inference run by `device`, `host` and `auto` in one process,
in turn, on the same tensors; `auto` is what `python -m torch_outboard tune` left, else the default.
The cost of `auto` is the median over rounds of its time over that by the forced way whose median is
the least. What misses the limit is measured again, up to three times in all, and every round
counts: whatever else runs on the machine disturbs single runs. Prints a line per program, and
whether the limit is met: 1.15 before `tune` and 1.05 after it.

OpenMP's threads wait as they do by default, or as OMP_WAIT_POLICY says, and `tune` is to be run
with the same: threads that sleep between two operators (PASSIVE) make programs of small operators
twice as slow on the host, and the device the better side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional

import torch_outboard
from benchmarks.paired import RESULTS, Work, environment, median_interval
from benchmarks.training_steps import WORKS, Gpt, Mlp, ResNet18, training
from torch_outboard import fallback, ways
from torch_outboard.tuning import tuning_file
from torch_outboard.tuning.way_times import seconds

# Limits of the cost of `auto`, without and with what `tune` has measured.
LIMIT_BEFORE, LIMIT_AFTER = 1.15, 1.05
# Seconds that one way of one round should take.
ROUND_SECONDS = 0.2
ATTEMPTS = 3


class Lstm(nn.Module):
    """A recurrent language model of width 128 over tokens (N, length); returns logits."""

    def __init__(self, tokens: int = 1000, width: int = 128) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.recurrent = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, tokens)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.tokens(indices))[0])


class UNet(nn.Module):
    """Two levels of 16 and 32 channels over images (N, 3, H, W); a class for every pixel."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.GroupNorm(4, outputs),
                nn.SiLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            )

        self.down, self.bottom, self.up = block(3, 16), block(16, 32), block(32, 16)
        self.widen = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.head = nn.Conv2d(16, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = self.down(x)
        wide = self.widen(self.bottom(functional.max_pool2d(skipped, 2)))
        pixels = self.head(self.up(torch.cat([wide, skipped], dim=1)))
        return pixels.movedim(1, -1)[:, ::8, ::8].mean((1, 2))


class VisionTransformer(nn.Module):
    """4 layers of width 192 over patches of 8 x 8 of images (N, 3, 64, 64); logits (N, 10)."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.positions = nn.Parameter(torch.zeros(64, width))
        layer = nn.TransformerEncoderLayer(
            width, nhead=3, dim_feedforward=4 * width, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True,
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, num_layers=4, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.layers(tokens).mean(1))


def inference(model: Callable[[], nn.Module], inputs: Callable[[], torch.Tensor]) -> Work:
    """A pass without gradients over one batch of random data."""

    def prepare(device: str) -> Callable[[], object]:
        torch.manual_seed(0)
        x = inputs().to(device)
        net = model().eval().to(device)

        def run() -> None:
            with torch.inference_mode():
                net(x)

        return run

    return prepare


def _images() -> torch.Tensor:
    return torch.randn(8, 3, 64, 64)


PROGRAMS: dict[str, Work] = {
    "MLP, training": WORKS["MLP"],
    "small CNN, training": WORKS["CNN of the demo"],
    "ResNet-18, training": WORKS["ResNet-18, 8 x 3 x 64 x 64"],
    "GPT, training": WORKS["small GPT"],
    "LSTM, training": training(Lstm, lambda: torch.randint(1000, (16, 32)), 1000),
    "U-Net, training": training(UNet, _images, 10),
    "MLP, inference": inference(Mlp, lambda: torch.randn(64, 784)),
    "ResNet-18, inference": inference(ResNet18, _images),
    "GPT, inference": inference(Gpt, lambda: torch.randint(1000, (8, 128))),
    "ViT, inference": inference(VisionTransformer, _images),
}


@dataclass(frozen=True)
class Cost:
    """Seconds of one execution by each way, and the time by auto over the better forced way's."""

    name: str
    device: float
    host: float
    auto: float
    cost: float  # median over rounds
    low: float  # 95 % interval
    high: float


def sample(run: Callable[[], object], rounds: int) -> dict[str, list[float]]:
    """Seconds of a program by each way in each round."""
    synchronize = torch.get_device_module(torch_outboard.device_name()).synchronize

    repeats = {}
    for way in ways.WAYS:
        with ways.way(way):
            seconds(run, 2, synchronize)  # compiles
            repeats[way] = max(1, int(ROUND_SECONDS / seconds(run, 1, synchronize)))
    times: dict[str, list[float]] = {way: [] for way in ways.WAYS}
    for number in range(rounds):
        for way in ways.WAYS[number % 3 :] + ways.WAYS[: number % 3]:
            with ways.way(way):
                run()  # wakes threads
                times[way].append(seconds(run, repeats[way], synchronize))
    return times


def measure(name: str, rounds: int, limit: float) -> Cost:
    """Measures a program, again if it misses the limit."""
    run = PROGRAMS[name](torch_outboard.device_name())
    by_round: dict[str, list[float]] = {way: [] for way in ways.WAYS}
    for _ in range(ATTEMPTS):
        for way, times in sample(run, rounds).items():
            by_round[way] += times
        medians = {way: statistics.median(values) for way, values in by_round.items()}
        better = min(("device", "host"), key=medians.__getitem__)
        cost, low, high = median_interval(
            [auto / forced for auto, forced in zip(by_round["auto"], by_round[better], strict=True)]
        )
        if cost <= limit:
            break
    return Cost(name, medians["device"], medians["host"], medians["auto"], cost, low, high)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, help="default: 1.15 before `tune`, 1.05 after it")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/ways-*")
    parser.add_argument("names", nargs="*", help="programs; default: all")
    options = parser.parse_args()
    device = torch.device(torch_outboard.device_name(), 0)
    fallback.set_policy(copied="allow")
    tuned = tuning_file.load(device.index) is not None
    limit = options.limit or (LIMIT_AFTER if tuned else LIMIT_BEFORE)
    print(f"way auto on {device}: {'as `tune` left it' if tuned else 'the default'}")
    lines = [
        "| program | device | host | auto | auto / better | 95 % interval | limit |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    results = []
    for name in options.names or PROGRAMS:
        r = measure(name, options.rounds, limit)
        times = " | ".join(f"{seconds * 1e3:.3g} ms" for seconds in (r.device, r.host, r.auto))
        verdict = "met" if r.cost <= limit else "missed"
        interval = f"{r.low:.2f} to {r.high:.2f}"
        lines.append(f"| {r.name} | {times} | {r.cost:.2f} | {interval} | {verdict} |")
        print(lines[-1], flush=True)
        results.append(r)
    missed = [r.name for r in results if r.cost > limit]
    lines += ["", f"limit {limit}: " + (f"missed by {', '.join(missed)}" if missed else "met")]
    print("\n".join(lines[-2:]))
    if options.save:
        settings = environment() | {
            "device": torch.get_device_module(device).get_device_properties(device).name,
            "tuned": tuned,
        }
        content = {"environment": settings, "results": [asdict(r) for r in results]}
        path = RESULTS / f"ways-{'after' if tuned else 'before'}-tune.json"
        path.write_text(json.dumps(content, indent=2) + "\n")
        head = ["# Ways", "", *(f"- {key}: {value}" for key, value in settings.items()), ""]
        path.with_suffix(".md").write_text("\n".join(head + lines) + "\n")
        print(f"written to {path} and .md")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
