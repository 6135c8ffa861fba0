"""Saving in the middle of training and going on from what was saved, to the same bits."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler

from tests.programs.comparison import SEED, as_on_cpu
from tests.programs.training import CLASSES, INPUTS, batch, perceptron, step

pytestmark = pytest.mark.separate


class Training:
    """All that training consists of, with dropout drawn on the device."""

    def __init__(self, device: torch.device, start: nn.Module, fused: bool) -> None:
        self.device = device
        self.model = copy.deepcopy(start).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01, fused=fused)
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


def with_dropout() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(INPUTS, 16), nn.Dropout(0.3), nn.SiLU(), nn.Linear(16, CLASSES), nn.Dropout(0.2)
    )


@pytest.mark.parametrize(("fused", "location"), [(False, None), (True, "cpu")])
def test_resuming(device, fused, location):
    torch.manual_seed(0)
    training = Training(device, with_dropout(), fused)
    torch.manual_seed(SEED)
    for number in range(4):
        training.step(number)
    file = io.BytesIO()
    torch.save(training.state(), file)
    file.seek(0)
    losses = [training.step(number) for number in range(4, 10)]

    state = torch.load(file, map_location=location, weights_only=True)
    resumed = Training(device, with_dropout(), fused)
    torch.manual_seed(1)
    resumed.load(state)
    for number, loss in enumerate(losses, 4):
        assert torch.equal(resumed.step(number), loss), f"step {number}"
    for ours, theirs in zip(resumed.model.parameters(), training.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
@as_on_cpu
def test_whole_objects(run, how):
    """Model and optimizer, copied together, keep ties, views and who belongs to whom."""
    model = run.on_device(perceptron())
    model.alias = model[2].weight
    model.register_buffer("part", model[5].weight.detach()[1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number in range(6):
        if number == 3:
            file = io.BytesIO()
            if how == "pickle":
                torch.save((model, optimizer), file)
                file.seek(0)
                model, optimizer = torch.load(file, weights_only=False)
            else:
                model, optimizer = copy.deepcopy((model, optimizer))
        loss = step(model, optimizer, *batch(run))
        yield {"loss": loss, "model": model, "optimizer": optimizer}
