"""Batches as programs get them: loaders with workers, pinned memory, copies that do not wait."""

import pytest
import torch
from torch.utils import data

from tests.programs.comparison import as_on_cpu
from tests.programs.training import INPUTS, perceptron, step

pytestmark = [pytest.mark.separate, pytest.mark.faults]


class Squares(data.Dataset):
    """Samples that arise from their number alone, whichever process makes them."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        draws = torch.Generator().manual_seed(number)
        return torch.randn(INPUTS, generator=draws), number % 3


@as_on_cpu
def test_loader(run):
    """Workers and pinned memory; copies to the device do not wait. On CPU neither."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    settings = {"num_workers": 2, "pin_memory": True, "persistent_workers": True}
    loader = data.DataLoader(
        Squares(),
        batch_size=4,
        sampler=torch.randperm(16, generator=torch.Generator().manual_seed(5)).tolist(),
        **({} if run.device.type == "cpu" else settings),
    )
    for _ in range(2):
        for inputs, classes in loader:
            pinned = inputs.is_pinned() or run.device.type == "cpu"
            inputs = run.precise(inputs).to(run.device, non_blocking=True)
            loss = step(model, optimizer, inputs, classes.to(run.device, non_blocking=True))
            yield {"loss": loss, "model": model, "pinned": pinned}


@as_on_cpu
def test_memory_that_copies_use(run):
    """Inputs are written again as soon as an event says that their copy is done; losses gather in
    pinned memory and are read once."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pin = run.device.type != "cpu"
    slots = [torch.empty(256, INPUTS, dtype=run.dtype, pin_memory=pin) for _ in range(2)]
    events: list[torch.Event | None] = [None, None]
    for _ in range(2):
        losses = torch.full((8,), torch.nan, dtype=run.dtype, pin_memory=pin)
        for number in range(8):
            slot, event = slots[number % 2], events[number % 2]
            if event is not None:
                event.synchronize()
            slot.copy_(torch.randn(256, INPUTS))
            inputs = slot.to(run.device, non_blocking=True)
            if pin:
                events[number % 2] = torch.Event(run.device)
                events[number % 2].record()
            loss = step(model, optimizer, inputs, run.integers(0, 3, (256,)))
            losses[number].copy_(loss, non_blocking=True)
        if pin:
            torch.accelerator.synchronize(run.device)
        yield {"losses": losses, "model": model}
