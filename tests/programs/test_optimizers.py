"""Every optimizer of PyTorch, in each of its implementations, and what wraps optimizers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler, swa_utils

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, perceptron, step, steps

pytestmark = pytest.mark.separate

STEPS = 20
FOREACH = ({}, {"foreach": True}, {"foreach": False})
FUSED = (*FOREACH, {"fused": True})

# Optimizer, its implementations, and settings that take other branches of it.
DECOUPLED = {"weight_decay": 0.1, "decoupled_weight_decay": True}
OPTIMIZERS: list[tuple[type, tuple[dict[str, bool], ...], tuple[dict[str, Any], ...]]] = [
    (torch.optim.Adadelta, FOREACH, ({"lr": 1.0}, {"weight_decay": 0.01, "maximize": True})),
    (torch.optim.Adafactor, FOREACH, ({"lr": 0.01}, {"weight_decay": 0.1, "maximize": True})),
    (torch.optim.Adagrad, FUSED, ({"lr": 0.05}, {"lr_decay": 0.1, "weight_decay": 0.1})),
    (torch.optim.Adam, FUSED, ({"lr": 0.01}, {"amsgrad": True, "weight_decay": 0.1})),
    (torch.optim.AdamW, FUSED, ({"lr": 0.01}, {"amsgrad": True, "maximize": True})),
    (torch.optim.Adamax, FOREACH, ({"lr": 0.01}, {"weight_decay": 0.1})),
    (torch.optim.ASGD, FOREACH, ({"lr": 0.05, "t0": 5}, {"weight_decay": 0.1})),
    (torch.optim.NAdam, FOREACH, ({"lr": 0.01}, DECOUPLED)),
    (torch.optim.RAdam, FOREACH, ({"lr": 0.01}, DECOUPLED)),
    (torch.optim.RMSprop, FOREACH, ({"lr": 0.01}, {"centered": True, "momentum": 0.9})),
    (torch.optim.Rprop, FOREACH, ({"lr": 0.01}, {"maximize": True})),
    (torch.optim.SGD, FUSED, ({"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "nesterov": True})),
]


def named(make: type, number: int, implementation: dict[str, bool]) -> str:
    choice = "-".join(f"{name}={value}" for name, value in implementation.items())
    return "-".join(filter(None, [make.__name__, str(number), choice]))


CASES = [
    pytest.param(
        make,
        {**settings, **implementation},
        id=named(make, number, implementation),
    )
    for make, implementations, choices in OPTIMIZERS
    for (number, settings), implementation in itertools.product(enumerate(choices), implementations)
]


@pytest.mark.by_turns(4)
@pytest.mark.parametrize(("make", "settings"), CASES)
def test_optimizer(same_as_on_cpu, make, settings):
    def program(run):
        model = run.on_device(perceptron(8))
        optimizer = make(model.parameters(), **settings)
        for _ in range(STEPS):
            loss = step(model, optimizer, *batch(run))
            yield {"loss": loss, "model": model, "state": list(optimizer.state.values())}

    # Where none is named, the device takes another implementation than CPU.
    same_as_on_cpu(program, bitwise=bool({"foreach", "fused"} & settings.keys()))


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


@as_on_cpu(relative=5e-2)  # Muon makes matrices orthogonal in bfloat16
def test_muon_and_a_second_optimizer(run):
    """Muon for matrices, another optimizer for the rest."""
    model = run.on_device(perceptron(8))
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizers = [torch.optim.Muon(matrices, lr=0.01), torch.optim.AdamW(others, lr=0.01)]
    for _ in range(STEPS):
        inputs, classes = batch(run)
        model.zero_grad()
        loss = functional.cross_entropy(model(inputs), classes)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        yield {"loss": loss, "model": model}


@as_on_cpu
def test_lbfgs(run):
    """Closures, and line search that decides by values read from the device."""
    model = run.on_device(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)))
    inputs, targets = run.draw(32, 6), run.draw(32, 1)
    for search in (None, "strong_wolfe"):
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=3, line_search_fn=search)

        def closure(optimizer=optimizer):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        for _ in range(8):
            loss = optimizer.step(closure)
            yield {"loss": loss, "model": model}


@as_on_cpu
def test_groups_that_come_later(run):
    """Groups with rates of their own, one of them frozen first and added in the middle."""
    model = run.on_device(perceptron(8))
    model[0].requires_grad_(False)
    optimizer = torch.optim.AdamW(
        [
            {"params": model[2].parameters(), "lr": 0.02, "weight_decay": 0.0},
            {"params": [*model[4].parameters(), *model[5].parameters()]},
        ],
        lr=0.005,
    )
    for number in range(24):
        if number == 12:
            model[0].requires_grad_(True)
            optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.001})
        loss = step(model, optimizer, *batch(run))
        yield {"loss": loss, "model": model, "optimizer": optimizer}


@as_on_cpu
def test_optimizer_within_the_backward_pass(run):
    """Each parameter has an optimizer that steps as soon as its gradient is complete."""
    model = run.on_device(perceptron(8))
    optimizers = {p: torch.optim.Adam([p], lr=0.01) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for _ in range(STEPS):
        inputs, classes = batch(run)
        loss = functional.cross_entropy(model(inputs), classes)
        loss.backward()
        left = [parameter.grad for parameter in model.parameters()]
        yield {"loss": loss, "model": model, "left": left}


# Of those that follow the number of steps alone, one that changes the momentum, too.
SCHEDULERS = {
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=25),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=5), lr_scheduler.ExponentialLR(o, 0.8)], [5]
    ),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@as_on_cpu
def test_scheduler(run, name):
    model = run.on_device(perceptron(8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = SCHEDULERS[name](optimizer)
    inputs, classes = batch(run)
    for _ in range(STEPS):
        loss = step(model, optimizer, inputs, classes)
        plateau = [loss.round(decimals=1)] if name == "ReduceLROnPlateau" else []
        scheduler.step(*plateau)
        rates = [group["lr"] for group in optimizer.param_groups]
        yield {"loss": loss, "model": model, "rates": rates}


@as_on_cpu
def test_moving_averages(run):
    """An exponential moving average of parameters and buffers beside the model that is trained."""
    model = run.on_device(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)))
    average = swa_utils.AveragedModel(
        model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        inputs, classes = batch(run)
        loss = step(model, optimizer, inputs, classes)
        average.update_parameters(model)
        average.eval()
        with torch.no_grad():
            averaged = functional.cross_entropy(average(inputs), classes)
        yield {"loss": loss, "averaged": averaged, "model": model, "average": average}


@as_on_cpu(bitwise=False)  # averages lists of tensors in another form than on CPU
def test_stochastic_weight_averaging(run):
    """Averaging from the middle on, at a rate of its own, and statistics of batches at the end."""
    model = run.on_device(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)))
    average = swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 20)
    averaging = swa_utils.SWALR(optimizer, swa_lr=0.03, anneal_epochs=3)
    batches = [batch(run) for _ in range(4)]
    for number in range(24):
        loss = step(model, optimizer, *batches[number % 4])
        if number >= 12:
            average.update_parameters(model)
            averaging.step()
        else:
            scheduler.step()
        yield {"loss": loss, "model": model, "average": average}
    swa_utils.update_bn([inputs for inputs, _ in batches], average, device=run.device)
    yield {"average": average, "scores": average(batches[0][0])}
