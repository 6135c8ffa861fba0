"""Trains a convolutional network on handwritten digits on the device and compares it with CPU.

    python examples/digits.py [--device ocl] [--epochs 10] [--output demo-output]

The data are the 1,797 scanned digits (8 x 8 pixels) that come with scikit-learn. The run exits with
status 1 if the trained network recognizes less than 97 % of the digits it has not seen, or if its
checkpoint does not give the same network again.
"""

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_outboard import fallback

REQUIRED_ACCURACY = 0.97
BATCH = 64
COMPARED_STEPS = 60
REPORTED_STEPS = 10

console = Console()


class DigitNet(nn.Module):
    """Three convolutions and two linear layers; input (N, 1, 8, 8), output (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images))


@dataclass
class Training:
    """What a training run left behind."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    # Until the first step was done, with finding the device and compiling its kernels.
    first_step_seconds: float = 0.0


@dataclass
class Comparison:
    """The same float32 steps on CPU and on the device; times are seconds per step."""

    cpu_losses: list[float] = field(default_factory=list)
    device_losses: list[float] = field(default_factory=list)
    cpu_times: list[float] = field(default_factory=list)
    device_times: list[float] = field(default_factory=list)

    @property
    def largest_difference(self) -> float:
        pairs = zip(self.cpu_losses, self.device_losses, strict=True)
        return max(abs(cpu - device) for cpu, device in pairs)


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


def new_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
    mixed_precision: bool = False,
) -> torch.Tensor:
    """One training step; returns the loss, still on the device."""
    with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=mixed_precision):
        loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(
    train_set: TensorDataset,
    test_set: TensorDataset,
    device: torch.device,
    epochs: int,
    checkpoint: Path,
) -> tuple[nn.Module, Training]:
    """Trains with mixed precision; half way everything is saved and goes on from the file."""
    start = time.perf_counter()
    torch.manual_seed(0)
    model = DigitNet().to(device)
    optimizer = new_optimizer(model)
    loader = DataLoader(train_set, batch_size=BATCH, shuffle=True, pin_memory=True)
    record = Training()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"training on {device}", total=epochs * len(loader))
        for epoch in range(1, epochs + 1):
            losses = []
            for images, labels in loader:
                images = images.to(device, non_blocking=True)
                labels = labels.to(device, non_blocking=True)
                losses.append(step(model, optimizer, images, labels, mixed_precision=True))
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
    model = DigitNet().to(device)
    model.load_state_dict(state["model"])
    optimizer = new_optimizer(model)
    optimizer.load_state_dict(state["optimizer"])
    return model, optimizer


def compare(train_set: TensorDataset, device: torch.device) -> Comparison:
    """The first float32 steps, same weights and batches on CPU and on the device, in turn."""
    torch.manual_seed(0)
    on_cpu = DigitNet()
    on_device = DigitNet().to(device)
    on_device.load_state_dict(on_cpu.state_dict())
    sides = [
        (torch.device("cpu"), on_cpu, new_optimizer(on_cpu)),
        (device, on_device, new_optimizer(on_device)),
    ]
    result = Comparison()
    losses = (result.cpu_losses, result.device_losses)
    times = (result.cpu_times, result.device_times)
    loader = DataLoader(train_set, batch_size=BATCH, shuffle=True, drop_last=True)
    batches = [batch for _ in range(-(-COMPARED_STEPS // len(loader))) for batch in loader]
    for images, labels in batches[:COMPARED_STEPS]:
        for side, (place, model, optimizer) in enumerate(sides):
            x, y = images.to(place), labels.to(place)
            start = time.perf_counter()
            loss = step(model, optimizer, x, y)
            losses[side].append(loss.item())  # waits for the device
            times[side].append(time.perf_counter() - start)
    return result


def shares(train_set: TensorDataset, device: torch.device) -> dict[str, float]:
    """The share of operator calls by the way they ran, over a few mixed-precision steps."""
    model = DigitNet().to(device)
    optimizer = new_optimizer(model)
    loader = iter(DataLoader(train_set, batch_size=BATCH))
    with fallback.report() as report:
        for _ in range(REPORTED_STEPS):
            images, labels = next(loader)
            step(model, optimizer, images.to(device), labels.to(device), mixed_precision=True)
    return report.share_by_way()


def draw(training: Training, comparison: Comparison, device: torch.device, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.plot(training.losses, label="training loss", linewidth=1)
    left.set(yscale="log", xlabel="step", title=f"Training on {device}, bfloat16 autocast")
    epochs = len(training.accuracies)
    ends = [len(training.losses) * (epoch + 1) / epochs for epoch in range(epochs)]
    errors = [max(1 - value, 1e-3) for value in training.accuracies]
    left.plot(ends, errors, "o-", label="test error", markersize=4)
    left.legend()
    right.plot(comparison.cpu_losses, label="CPU", linewidth=3, alpha=0.5)
    right.plot(comparison.device_losses, "--", label=str(device))
    right.set(
        yscale="log",
        xlabel="step",
        title=f"First steps in float32: largest difference {comparison.largest_difference:.1e}",
    )
    right.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def result_table(
    device: torch.device,
    accuracies: tuple[float, float],
    comparison: Comparison,
    peak_memory: int,
    ways: dict[str, float],
) -> Table:
    table = Table(title="Handwritten digits")
    table.add_column("")
    table.add_column("CPU", justify="right")
    table.add_column(str(device), justify="right")
    table.add_row("test accuracy of the trained network", *(f"{a:.2%}" for a in accuracies))
    difference = f"{comparison.largest_difference:.2e}"
    table.add_row(f"largest loss difference, first {COMPARED_STEPS} steps", "", difference)
    times = (statistics.median(t) * 1e3 for t in (comparison.cpu_times, comparison.device_times))
    table.add_row("time per step, float32 (median)", *(f"{t:.2f} ms" for t in times))
    table.add_row("peak device memory in training", "", f"{peak_memory / 2**20:.1f} MiB")
    names = {
        "device": "operators by device kernels",
        "shared": "operators by host kernels on shared memory",
        "copied": "operators by host kernels on copies",
    }
    for way, name in names.items():
        table.add_row(name, "", f"{ways[way]:.1%}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="default: the device of this backend")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.device is None:
        import torch_outboard

        options.device = torch_outboard.device_name()
    device = torch.device(options.device)
    options.output.mkdir(parents=True, exist_ok=True)

    train_set, test_set = digits()
    console.print(f"{len(train_set)} digits to train on, {len(test_set)} to test with")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "digits.pt")
        model, training = train(train_set, test_set, device, options.epochs, checkpoint)
        peak_memory = torch.accelerator.max_memory_allocated(device)
        save(checkpoint, model, new_optimizer(model))
        on_cpu, _ = load(checkpoint, torch.device("cpu"))
    accuracies = (
        accuracy(on_cpu, test_set, torch.device("cpu")),
        accuracy(model, test_set, device),
    )
    comparison = compare(train_set, device)
    ways = shares(train_set, device)

    console.print(result_table(device, accuracies, comparison, peak_memory, ways))
    picture = options.output / "digits.png"
    draw(training, comparison, device, picture)
    console.print(f"trained in {training.seconds:.1f} s; loss curves in {picture}")
    if accuracies[1] < REQUIRED_ACCURACY:
        console.print(f"FAILED: {accuracies[1]:.2%} is below {REQUIRED_ACCURACY:.0%}", style="red")
        return 1
    if abs(accuracies[0] - accuracies[1]) > 1 / len(test_set) + 1e-6:
        console.print("FAILED: the reloaded checkpoint is another network", style="red")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
