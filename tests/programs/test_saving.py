"""Saving in the middle of training and going on from what was saved, to the same bits."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler

from tests.programs.comparison import SEED, as_on_cpu
from tests.programs.training import CLASSES, INPUTS, batch, perceptron, step, with_dropout
from tests.support import run_python

pytestmark = pytest.mark.separate

OPTIMIZERS = {
    "SGD": {"lr": 0.05, "momentum": 0.9},
    "AdamW": {"lr": 0.01},
    "AdamW fused": {"lr": 0.01, "fused": True},
    "NAdam": {"lr": 0.01},
    "Adafactor": {"lr": 0.01},
    "Rprop": {"lr": 0.01},
}


class Training:
    """All that training consists of, with dropout drawn on the device."""

    def __init__(self, device: torch.device, start: nn.Module, optimizer: str) -> None:
        self.device = device
        self.model = copy.deepcopy(start).to(device)
        make = getattr(torch.optim, optimizer.split()[0])
        self.optimizer = make(self.model.parameters(), **OPTIMIZERS[optimizer])
        self.scheduler = lr_scheduler.CosineAnnealingLR(self.optimizer, 20)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=64.0, growth_interval=3)
        self.generators = torch.get_device_module(device)

    def step(self, number: int) -> torch.Tensor:
        draws = torch.Generator().manual_seed(number)
        inputs = torch.randn(8, INPUTS, generator=draws).to(self.device)
        classes = torch.randint(0, CLASSES, (8,), generator=draws).to(self.device)
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(inputs), classes)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        return loss.detach()

    def state(self) -> dict[str, Any]:
        parts = ("model", "optimizer", "scheduler", "scaler")
        state = {part: getattr(self, part).state_dict() for part in parts}
        return {**state, "generator": self.generators.get_rng_state(self.device)}

    def load(self, state: dict[str, Any]) -> None:
        for part in ("model", "optimizer", "scheduler", "scaler"):
            getattr(self, part).load_state_dict(state[part])
        self.generators.set_rng_state(state["generator"].cpu(), self.device)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("mapped", ["as saved", "to CPU"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_resuming(device, optimizer, mapped):
    torch.manual_seed(0)
    start = with_dropout()
    training = Training(device, start, optimizer)
    torch.manual_seed(SEED)
    for number in range(10):
        training.step(number)
    file = io.BytesIO()
    torch.save(training.state(), file)
    file.seek(0)
    losses = [training.step(number) for number in range(10, 30)]

    state = torch.load(file, map_location="cpu" if mapped == "to CPU" else None, weights_only=True)
    resumed = Training(device, with_dropout(), optimizer)
    torch.manual_seed(1)
    resumed.load(state)
    for number, loss in enumerate(losses, 10):
        assert torch.equal(resumed.step(number), loss), f"step {number}"
    for ours, theirs in zip(resumed.model.parameters(), training.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@as_on_cpu
def test_resuming_elsewhere(run):
    """What was trained and saved on the device goes on on CPU, and comes back after that."""
    place, file = run.device, None
    for period in range(4):
        model = run.precise(perceptron()).to(place)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        if file:
            file.seek(0)
            saved = torch.load(file, map_location=place, weights_only=True)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        for _ in range(6):
            inputs, classes = batch(run)
            loss = step(model, optimizer, inputs.to(place), classes.to(place))
            yield {"loss": loss, "model": model, "optimizer": optimizer}
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        place = run.device if period % 2 else torch.device("cpu")


@as_on_cpu
def test_whole_objects(run):
    """A pickle of model and optimizer together keeps ties, views and who belongs to whom."""
    model = run.on_device(perceptron())
    model[2].weight = nn.Parameter(model[2].weight.detach().clone())
    model.alias = model[2].weight
    model.register_buffer("part", model[5].weight.detach()[1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number in range(20):
        if number == 8:
            file = io.BytesIO()
            torch.save((model, optimizer), file)
            file.seek(0)
            model, optimizer = torch.load(file, weights_only=False)
        loss = step(model, optimizer, *batch(run))
        yield {"loss": loss, "model": model, "optimizer": optimizer}


@pytest.mark.slow
def test_resuming_in_a_new_process(device, tmp_path, program_way):
    """A new process goes on to the same bits from the file alone."""
    code = """
        import sys, torch
        from tests.programs.test_saving import Training
        from tests.programs.training import with_dropout
        import torch_outboard
        way, path, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
        torch_outboard.ways.set_way(way)
        torch_outboard.fallback.set_policy(copied="allow")
        torch.manual_seed(0)
        training = Training(torch.device(torch_outboard.device_name(), 0), with_dropout(), "AdamW")
        if first:
            training.load(torch.load(path, weights_only=True))
        for number in range(first, last):
            loss = training.step(number)
            print(number, loss.item().hex())
        if not first:
            torch.save(training.state(), path)
            for number in range(last, last + 10):
                print(number, training.step(number).item().hex())
    """
    path = str(tmp_path / "state.pt")
    arguments = (code, program_way, path)
    whole = run_python(*arguments, "0", "10", PYTHONPATH=".").splitlines()
    resumed = run_python(*arguments, "10", "20", PYTHONPATH=".").splitlines()
    assert len(resumed) == 10
    assert resumed == whole[10:]
