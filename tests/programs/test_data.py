"""Batches as programs get them: loaders with workers, pinned memory, copies that do not wait."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils import data

from tests.programs.comparison import as_on_cpu
from tests.programs.training import INPUTS, perceptron, step

pytestmark = [pytest.mark.separate, pytest.mark.torture]


class Squares(data.Dataset):
    """Samples that arise from their number alone, whichever process makes them."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        draws = torch.Generator().manual_seed(number)
        return torch.randn(INPUTS, generator=draws), number % 3


class Endless(data.IterableDataset):
    def __iter__(self):
        worker = data.get_worker_info()
        start, apart = (worker.id, worker.num_workers) if worker else (0, 1)
        samples = Squares()
        return (samples[number] for number in range(start, 40, apart))


CHOICES = {
    "in this process": {},
    "pinned": {"pin_memory": True},
    "workers": {"num_workers": 2},
    "workers, pinned": {"num_workers": 2, "pin_memory": True, "persistent_workers": True},
}


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("kind", [Squares, Endless])
@pytest.mark.parametrize("choice", CHOICES)
@as_on_cpu
def test_loader(run, choice, kind):
    """Two epochs; copies to the device do not wait. On CPU nothing is pinned or copied."""
    settings = CHOICES[choice]

    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    pin = {"pin_memory": False} if run.device.type == "cpu" else {}
    loader = data.DataLoader(
        kind(),
        batch_size=4,
        shuffle=kind is Squares,
        generator=torch.Generator().manual_seed(5),
        **{**settings, **pin},
    )
    for _ in range(2):
        for inputs, classes in loader:
            pinned = inputs.is_pinned() or run.device.type == "cpu"
            inputs = run.precise(inputs).to(run.device, non_blocking=True)
            loss = step(model, optimizer, inputs, classes.to(run.device, non_blocking=True))
            shown = {"loss": loss, "model": model}
            if "pinned" in choice:
                shown["pinned"] = pinned
            yield shown


@as_on_cpu
def test_next_batch_while_training(run):
    """Pinned memory is written again as soon as an event says that its copy is done."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pin = run.device.type != "cpu"
    slots = [torch.empty(512, INPUTS, dtype=run.dtype, pin_memory=pin) for _ in range(2)]
    events: list[torch.Event | None] = [None, None]
    for number in range(24):
        slot, event = slots[number % 2], events[number % 2]
        if event is not None:
            event.synchronize()
        slot.copy_(torch.randn(512, INPUTS))
        inputs = slot.to(run.device, non_blocking=True)
        if pin:
            events[number % 2] = torch.Event(run.device)
            events[number % 2].record()
        classes = run.integers(0, 3, (512,))
        yield {"loss": step(model, optimizer, inputs, classes), "model": model}


@as_on_cpu
def test_results_come_back_without_waiting(run):
    """Losses gather in pinned memory and are read once, at the end of each epoch."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pin = run.device.type != "cpu"
    for _ in range(4):
        losses = torch.full((8,), torch.nan, dtype=run.dtype, pin_memory=pin)
        for number in range(8):
            inputs, classes = run.draw(16, INPUTS), run.integers(0, 3, (16,))
            losses[number].copy_(step(model, optimizer, inputs, classes), non_blocking=True)
        if pin:
            torch.accelerator.synchronize(run.device)
        yield {"losses": losses, "model": model}


@as_on_cpu
def test_parts_of_one_dataset(run):
    """All data on the device at once, drawn from by permutations and weights of CPU's."""
    everything = data.TensorDataset(run.draw(60, INPUTS), run.integers(0, 3, (60,)))
    training, held_out = data.random_split(
        everything, [48, 12], generator=torch.Generator().manual_seed(1)
    )
    sampler = data.WeightedRandomSampler(
        torch.arange(1.0, 49.0), 48, generator=torch.Generator().manual_seed(2)
    )
    model = run.on_device(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for inputs, classes in data.DataLoader(training, batch_size=4, sampler=sampler):
            yield {"loss": step(model, optimizer, inputs, classes), "model": model}
        with torch.no_grad():
            inputs, classes = next(iter(data.DataLoader(held_out, batch_size=12)))
            yield {"held out": functional.cross_entropy(model(inputs), classes)}
