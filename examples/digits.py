"""Trains a convolutional network on handwritten digits on the device and compares it with CPU.

    python examples/digits.py [--device ocl] [--epochs 8] [--channels 48] [--no-compile]

The data are the 1,797 scanned digits (8 x 8 pixels) that come with scikit-learn. The network is
trained by device kernels, where the device has any. Then CPU and the device take the same first
steps in turn, in eager mode and compiled. The run exits with status 1 if

- the trained network recognizes less than 97 % of the digits it has not seen,
- its checkpoint does not restore the same network,
- the device can compile and launched no kernel,
- or a loss of the first steps in float32 differs from that of float64 on CPU by more than 0.01, and
  by more than twice the difference of float32 on CPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_outboard import fallback, placement

REQUIRED_ACCURACY = 0.97
BATCH = 128
# The first of the compared steps compile, and are not timed.
COMPARED_STEPS = 16
UNTIMED_STEPS = 4
# Before a step threads of the side before it go to sleep: spinning threads slow the next one.
PAUSE = 0.02
# Sums in another order differ by rounding, and training increases the difference from step to step.
ALLOWED_DIFFERENCE = 1e-2
# AdamW divides gradients by their size. Gradients of biases before a batch normalization consist of
# rounding errors, and would become whole steps: then losses of two correct runs are 0.008 apart.
COMPARED_EPSILON = 1e-3
REPORTED_STEPS = 4

console = Console()
COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
)


class DigitNet(nn.Module):
    """Three convolutions and two linear layers; input (N, 1, 8, 8), output (N, 10).

    Args:
        channels: of the first convolution; all other sizes are multiples.
    """

    def __init__(self, channels: int = 48) -> None:
        super().__init__()
        c = channels
        self.features = nn.Sequential(
            nn.Conv2d(1, c, 3, padding=1),
            nn.BatchNorm2d(c),
            nn.ReLU(),
            nn.Conv2d(c, 2 * c, 3, padding=1),
            nn.BatchNorm2d(2 * c),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * c, 2 * c, 3, padding=1),
            nn.BatchNorm2d(2 * c),
            nn.ReLU(),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(2 * c * 4 * 4, 4 * c), nn.ReLU(), nn.Linear(4 * c, 10)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images))


@dataclass
class Training:
    """The result of a training run."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    # Until the end of the first step, with device search and compilation of kernels.
    first_step_seconds: float = 0.0


@dataclass(frozen=True)
class Side:
    """A device of the network, the placement of its operators, and whether it is compiled."""

    title: str
    device: torch.device
    # The setting of `torch_outboard.placement`; None on CPU.
    setting: str | None = None
    compiled: bool = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Sets the placement for a block."""
        if self.setting is None:
            yield
            return
        with placement.use(self.setting, self.device):
            yield

    def forward(self, model: nn.Module) -> Callable[..., Any]:
        """The model, compiled if this side is."""
        return torch.compile(model) if self.compiled else model


@dataclass
class Steps:
    """Some float32 steps: losses, and seconds per step."""

    losses: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def difference(self, other: Steps) -> float:
        """The largest difference between losses; NaN if a loss is NaN."""
        ours, theirs = (torch.tensor(losses).double() for losses in (self.losses, other.losses))
        return (ours - theirs).abs().max().item()


def sides(device: torch.device, compiled: bool) -> list[Side]:
    """CPU and the device, by device kernels if it runs code; in eager mode and compiled."""
    cpu = torch.device("cpu")
    runs_code = (
        torch.get_device_module(device).get_device_properties(device).max_work_group_size > 0
    )
    setting = "device" if runs_code else "auto"
    eager = [Side("CPU", cpu), Side(str(device), device, setting)]
    if not compiled:
        return eager
    return [
        eager[0],
        Side("CPU, compiled", cpu, compiled=True),
        eager[1],
        Side(f"{device}, compiled", device, setting, compiled=True),
    ]


def description(device: torch.device) -> str:
    """What the device is."""
    facts = torch.get_device_module(device).get_device_properties(device)
    return (
        f"{device} is {facts.name}: {facts.kind}, {facts.multi_processor_count} compute units, "
        f"{facts.total_memory / 2**30:.1f} GiB"
    )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Training and test set: images (N, 1, 8, 8) in [0, 1] as float32, labels (N,) as int64."""
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(labels)
    train, test = train_test_split(range(len(y)), test_size=0.2, random_state=0, stratify=labels)
    return TensorDataset(x[train], y[train]), TensorDataset(x[test], y[test])


def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    model.eval()
    images, labels = (tensor.to(device) for tensor in data.tensors)
    with torch.inference_mode():
        hits = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return hits


def new_optimizer(model: nn.Module, epsilon: float = 1e-8) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2, eps=epsilon)


def step(
    forward: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
) -> torch.Tensor:
    """One training step; returns the loss, still on the device."""
    loss = nn.functional.cross_entropy(forward(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(
    train_set: TensorDataset,
    test_set: TensorDataset,
    device: torch.device,
    epochs: int,
    channels: int,
    checkpoint: Path,
) -> tuple[nn.Module, Training]:
    """Trains; half way saves everything and continues from the file."""
    start = time.perf_counter()
    torch.manual_seed(0)
    model = DigitNet(channels).to(device)
    optimizer = new_optimizer(model)
    loader = DataLoader(train_set, batch_size=BATCH, shuffle=True, pin_memory=True)
    record = Training()
    with Progress(*COLUMNS, console=console) as progress:
        task = progress.add_task(f"training on {device}", total=epochs * len(loader))
        for epoch in range(1, epochs + 1):
            losses = []
            for images, labels in loader:
                images = images.to(device, non_blocking=True)
                labels = labels.to(device, non_blocking=True)
                losses.append(step(model, optimizer, images, labels))
                if not record.first_step_seconds:
                    torch.accelerator.synchronize(device)
                    record.first_step_seconds = time.perf_counter() - start
                    progress.console.print(
                        f"first step after {record.first_step_seconds:.1f} s, finding the device "
                        "and compiling included"
                    )
                progress.advance(task)
            record.losses += torch.stack(losses).tolist()
            record.accuracies.append(accuracy(model, test_set, device))
            mean_loss = statistics.fmean(record.losses[-len(losses) :])
            progress.console.print(
                f"epoch {epoch:2}/{epochs}  loss {mean_loss:.4f}"
                f"  test accuracy {record.accuracies[-1]:.2%}"
            )
            if epoch == epochs // 2:
                save(checkpoint, model, optimizer)
                model, optimizer = load(checkpoint, device)
                progress.console.print(f"          saved to and reloaded from {checkpoint.name}")
    record.seconds = time.perf_counter() - start
    return model, record


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load(path: Path, device: torch.device) -> tuple[nn.Module, torch.optim.Optimizer]:
    state = torch.load(path, map_location=device, weights_only=True)
    model = DigitNet(len(state["model"]["features.0.weight"])).to(device)
    model.load_state_dict(state["model"])
    optimizer = new_optimizer(model)
    optimizer.load_state_dict(state["optimizer"])
    return model, optimizer


def compare(
    train_set: TensorDataset, sides: list[Side], channels: int
) -> tuple[list[Steps], list[float]]:
    """The first float32 steps of all sides in turn, with the same weights and batches.

    Returns:
        the steps of each, and by how much its losses differ from those of float64 on CPU
    """
    torch.manual_seed(0)
    start = DigitNet(channels)
    reference = Side("float64", torch.device("cpu"))
    sides = [*sides, reference]
    models = [DigitNet(channels).to(side.device) for side in sides]
    for model in models:
        model.load_state_dict(start.state_dict())
    models[-1].double()
    forwards = [side.forward(model) for side, model in zip(sides, models, strict=True)]
    optimizers = [new_optimizer(model, COMPARED_EPSILON) for model in models]
    results = [Steps() for _ in sides]
    loader = DataLoader(train_set, batch_size=BATCH, shuffle=True, drop_last=True)
    batches = [batch for _ in range(-(-COMPARED_STEPS // len(loader))) for batch in loader]
    turns = list(zip(sides, forwards, optimizers, results, strict=True))
    with Progress(*COLUMNS, console=console, transient=True) as progress:
        task = progress.add_task("comparing in turns", total=COMPARED_STEPS)
        for number, (images, labels) in enumerate(batches[:COMPARED_STEPS]):
            for side, forward, optimizer, result in turns[:: -1 if number % 2 else 1]:
                x, y = images.to(side.device), labels.to(side.device)
                if side is reference:
                    x = x.double()
                time.sleep(PAUSE)
                with side.taken():
                    begin = time.perf_counter()
                    result.losses.append(step(forward, optimizer, x, y).item())  # waits
                if number >= UNTIMED_STEPS:
                    result.times.append(time.perf_counter() - begin)
            progress.advance(task)
    exact = results.pop()
    return results, [result.difference(exact) for result in results]


def shares(train_set: TensorDataset, side: Side, channels: int) -> dict[str, float]:
    """The share of operator calls by placement, over a few steps."""
    model = DigitNet(channels).to(side.device)
    optimizer = new_optimizer(model)
    loader = iter(DataLoader(train_set, batch_size=BATCH))
    with side.taken(), fallback.report() as report:
        for _ in range(REPORTED_STEPS):
            images, labels = (tensor.to(side.device) for tensor in next(loader))
            step(model, optimizer, images, labels)
    return report.share_by_placement()


def draw(training: Training, sides: list[Side], results: list[Steps], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.plot(training.losses, label="training loss", linewidth=1)
    left.set(yscale="log", xlabel="step", title=f"Training on {device_side(sides).title}")
    epochs = len(training.accuracies)
    ends = [len(training.losses) * (epoch + 1) / epochs for epoch in range(epochs)]
    errors = [max(1 - value, 1e-3) for value in training.accuracies]
    left.plot(ends, errors, "o-", label="test error", markersize=4)
    left.legend()
    right.boxplot(
        [[1e3 * seconds for seconds in result.times] for result in results],
        orientation="horizontal", tick_labels=[side.title for side in sides],
    )  # fmt: skip
    right.invert_yaxis()
    right.set(xlim=(0, None), xlabel="ms", title="Time of a training step, in turns")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def device_side(sides: list[Side]) -> Side:
    """The device in eager mode."""
    return next(side for side in sides if side.setting is not None)


def result_table(
    sides: list[Side],
    accuracies: list[float],
    results: list[Steps],
    differences: list[float],
    by_placement: dict[str, float],
) -> Table:
    title = f"Handwritten digits; {COMPARED_STEPS} steps in turns, median times"
    table = Table(title=title)
    table.add_column("")
    for side in sides:
        table.add_column(side.title, justify="right")
    table.add_row("test accuracy", *(f"{a:.2%}" for a in accuracies))
    shown = [f"{difference:.1e}" for difference in differences]
    table.add_row("loss off float64's", *shown)
    medians = [statistics.median(result.times) for result in results]
    table.add_row("time per step", *(f"{1e3 * median:.1f} ms" for median in medians))
    table.add_row("relative to CPU", *(f"{median / medians[0]:.2f}" for median in medians))
    share = ", ".join(f"{name}: {value:.0%}" for name, value in by_placement.items() if value)
    cells = [share if side is device_side(sides) else "" for side in sides]
    table.add_row("operators by", *cells)
    return table


def failures(
    sides: list[Side],
    accuracies: list[float],
    differences: list[float],
    by_placement: dict[str, float],
    test_size: int,
) -> list[str]:
    """The failures of a run; `by_placement` is of the device in eager mode."""
    found = []
    own = device_side(sides)
    trained = accuracies[sides.index(own)]
    if trained < REQUIRED_ACCURACY:
        found.append(f"{trained:.2%} is below {REQUIRED_ACCURACY:.0%}")
    for side, accuracy_here in zip(sides, accuracies, strict=True):
        # Another order of sums may change the result for one digit.
        if abs(accuracy_here - trained) > 1 / test_size + 1e-6:
            found.append(f"the checkpoint is another network on {side.title}")
    allowed = max(ALLOWED_DIFFERENCE, 2 * differences[0])
    for side, difference in zip(sides[1:], differences[1:], strict=True):
        if not difference <= allowed:  # nor NaN
            found.append(
                f"a loss on {side.title} differs from float64's on CPU by {difference:.1e}, and "
                f"{allowed:.0e} is allowed"
            )
    if own.setting == "device" and not by_placement["device"]:
        found.append(f"{own.device} runs code, and no operator launched a kernel")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", help="default: the device of this backend")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--channels", type=int, default=48, help="of the first convolution")
    parser.add_argument("--no-compile", action="store_true", help="eager mode alone")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.device is None:
        import torch_outboard

        options.device = torch_outboard.device_name()
    device = torch.device(options.device)
    options.output.mkdir(parents=True, exist_ok=True)

    train_set, test_set = digits()
    console.print(description(torch.device(device.type, device.index or 0)))
    console.print(f"{len(train_set)} digits to train on, {len(test_set)} to test with")
    all_sides = sides(device, not options.no_compile)
    own = device_side(all_sides)
    accuracies = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "digits.pt")
        with own.taken():
            model, training = train(
                train_set, test_set, device, options.epochs, options.channels, checkpoint
            )
            save(checkpoint, model, new_optimizer(model))
        for side in all_sides:
            with side.taken():
                loaded, _ = load(checkpoint, side.device)
                accuracies.append(accuracy(loaded, test_set, side.device))
    by_placement = shares(train_set, own, options.channels)
    results, differences = compare(train_set, all_sides, options.channels)

    console.print(result_table(all_sides, accuracies, results, differences, by_placement))
    picture = options.output / "digits.png"
    draw(training, all_sides, results, picture)
    console.print(
        f"trained in {training.seconds:.1f} s, with at most "
        f"{torch.accelerator.max_memory_allocated(device) / 2**20:.1f} MiB; curves and times of "
        f"steps in {picture}"
    )
    problems = failures(all_sides, accuracies, differences, by_placement, len(test_set))
    for problem in problems:
        console.print(f"FAILED: {problem}", style="red")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
