"""Every optimizer of PyTorch by its kernels for lists, and an average of a model."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import swa_utils

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, perceptron, step, steps

pytestmark = pytest.mark.separate

STEPS = 8  # from the sixth on RAdam takes its other branch
# Of each the settings that take most branches of it.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adadelta": {"weight_decay": 0.01, "maximize": True},
    "Adafactor": {"weight_decay": 0.1, "maximize": True},
    "Adagrad": {"lr_decay": 0.1, "weight_decay": 0.1},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"amsgrad": True, "maximize": True},
    "Adamax": {"weight_decay": 0.1},
    "ASGD": {"t0": 3, "weight_decay": 0.1},
    "NAdam": {"weight_decay": 0.1, "decoupled_weight_decay": True},
    "RAdam": {"weight_decay": 0.1, "decoupled_weight_decay": True},
    "RMSprop": {"centered": True, "momentum": 0.9},
    "Rprop": {"maximize": True},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
}
FUSED = ("Adagrad", "Adam", "AdamW", "SGD")
CASES = [(name, "foreach") for name in OPTIMIZERS] + [(name, "fused") for name in FUSED]


@pytest.mark.by_turns(2)
@pytest.mark.parametrize(("name", "kernels"), CASES)
@as_on_cpu
def test_optimizer(run, name, kernels):
    model = run.on_device(perceptron(8))
    make = getattr(torch.optim, name)
    optimizer = make(model.parameters(), **{"lr": 0.01, **OPTIMIZERS[name], kernels: True})
    for _ in range(STEPS):
        loss = step(model, optimizer, *batch(run))
        yield {"loss": loss, "model": model, "state": list(optimizer.state.values())}


# The device chooses another implementation than CPU.
@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.NAdam, torch.optim.ASGD])
@as_on_cpu(bitwise=False)
def test_capturable(run, make):
    """Steps and rates are tensors on the device, where CPU has no such mode."""
    model = run.on_device(perceptron(8))
    optimizer = make(model.parameters(), lr=0.01, capturable=run.device.type != "cpu")
    yield from steps(run, model, optimizer)


@as_on_cpu
def test_rate_is_a_tensor(run):
    """A rate that the program changes in its place, which a fused optimizer reads."""
    model = run.on_device(perceptron(8))
    rate = run.on_device(torch.tensor(0.01))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    for _ in range(STEPS):
        loss = step(model, optimizer, *batch(run))
        rate.mul_(0.9)
        yield {"loss": loss, "model": model, "rate": rate}


@as_on_cpu
def test_moving_averages(run):
    """An exponential moving average of parameters and buffers beside the model that is trained."""
    model = run.on_device(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)))
    average = swa_utils.AveragedModel(
        model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = step(model, optimizer, *batch(run))
        average.update_parameters(model)
        yield {"loss": loss, "model": model, "average": average}
