"""Modules, parameters and optimizers that move between CPU and the device while they are in use."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, descend, gradients_of, perceptron, step, steps

pytestmark = pytest.mark.separate


class Tied(nn.Module):
    """Embeds words and scores them by one and the same matrix."""

    def __init__(self, words: int = 12, width: int = 8) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.inner = nn.Linear(width, width)
        self.scores = nn.Linear(width, words, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.scores(self.inner(self.words(words)).tanh())


@as_on_cpu
def test_layers_used_twice(run):
    """A module in two places, and a parameter that is a view of memory that another one has."""
    inner = nn.Linear(6, 6)
    model = nn.Sequential(inner, nn.Tanh(), inner, nn.Tanh(), nn.Linear(6, 3))
    model = run.on_device(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(20):
        loss = step(model, optimizer, *batch(run))
        same = model[0] is model[2]
        yield {"loss": loss, "model": model, "optimizer": optimizer, "same": same}


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
@as_on_cpu
def test_optimizer_before_moving(run, make):
    model = run.precise(perceptron())
    optimizer = make(model.parameters(), lr=1e-2)
    model.to(run.device)
    yield from steps(run, model, optimizer, optimizer=optimizer)


@as_on_cpu
def test_state_of_the_optimizer_follows(run):
    """Trains on the device and on CPU in turn; `load_state_dict` moves the optimizer's state."""
    model = run.precise(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        place = run.device if epoch % 2 == 0 else torch.device("cpu")
        model.to(place)
        optimizer.load_state_dict(optimizer.state_dict())
        for _ in range(5):
            inputs, classes = batch(run)
            loss = step(model, optimizer, inputs.to(place), classes.to(place))
            shown = {"loss": loss, "model": model, "optimizer": optimizer}
            yield {**shown, "gradients": gradients_of(model)}


@as_on_cpu
def test_data_is_replaced(run):
    """`parameter.data = ...` brings a parameter to the device, and other values later."""
    model = run.precise(perceptron())
    held = list(model.parameters())
    optimizer = torch.optim.SGD(held, lr=0.1, momentum=0.9)
    for parameter in held:
        parameter.data = parameter.data.to(run.device)
    for number in range(20):
        loss = step(model, optimizer, *batch(run))
        if number == 10:
            for parameter in held:
                parameter.data = parameter.data * 0.5
        yield {"loss": loss, "held": held, "model": model, "optimizer": optimizer}


@as_on_cpu
def test_gradients_move_with_parameters(run):
    model = run.precise(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        inputs, classes = (value.cpu() for value in batch(run))
        optimizer.zero_grad()
        model.cpu()
        functional.cross_entropy(model(inputs), classes).backward()
        model.to(run.device)
        functional.cross_entropy(model(inputs.to(run.device)), classes.to(run.device)).backward()
        places = {p.grad.device == p.device == run.device for p in model.parameters()}
        optimizer.step()
        yield {"model": model, "gradients": gradients_of(model), "places": sorted(places)}


@as_on_cpu
def test_views_held_elsewhere(run):
    """Weights of two modules in one piece of memory, as fused projections keep them."""
    packed = run.on_device(torch.randn(12, 4)).requires_grad_()
    optimizer = torch.optim.Adam([packed], lr=1e-2)
    for _ in range(20):
        queries, keys, values = packed.chunk(3)
        x = run.draw(5, 4)
        scores = (x @ queries.T) @ (x @ keys.T).T
        loss = (scores.softmax(-1) @ (x @ values.T)).square().mean()
        descend(optimizer, loss)
        yield {"loss": loss, "packed": packed, "parts": [queries, keys, values]}


@as_on_cpu
def test_conversion_of_dtype_and_layout(run):
    """`.to` with a dtype, and channels last, keep parameters the same objects, too."""
    model = run.precise(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.SiLU(), nn.Conv2d(4, 4, 3), nn.Flatten())
    )
    held = list(model.parameters())
    model.to(run.device, torch.float64).to(run.dtype)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(held, lr=0.05)
    for _ in range(20):
        images = run.draw(2, 3, 8, 8).to(memory_format=torch.channels_last)
        loss = model(images).square().mean()
        descend(optimizer, loss)
        layout = model[0].weight.is_contiguous(memory_format=torch.channels_last)
        yield {"loss": loss, "model": model, "held": held, "layout": layout}


@as_on_cpu
def test_from_meta_by_to_empty(run):
    values = run.precise(perceptron()).state_dict()
    with torch.device("meta"):
        model = run.precise(perceptron())
    yield {"values": values, "names": sorted(model.state_dict())}
    model.to_empty(device=run.device)
    model.load_state_dict(values)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    yield from steps(run, model, optimizer, optimizer=optimizer)


@as_on_cpu
def test_from_meta_by_assignment(run):
    """`load_state_dict(assign=True)` takes the tensors themselves."""
    values = {k: v.to(run.device) for k, v in run.precise(perceptron()).state_dict().items()}
    with torch.device("meta"):
        model = run.precise(perceptron())
    model.load_state_dict(values, assign=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = step(model, optimizer, *batch(run))
        yield {"loss": loss, "model": model, "values": values, "optimizer": optimizer}


@as_on_cpu
def test_lazy_modules(run):
    """Lazy modules that are moved before they know their sizes, with buffers that are lazy, too."""
    model = nn.Sequential(
        nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.SiLU(), nn.Flatten(), nn.LazyLinear(3)
    )
    model.to(run.device)
    images = run.on_device(torch.randn(4, 2, 6, 6))
    if run.exact:
        model.double()
    model(images)
    torch.manual_seed(7)  # the lazy modules have drawn numbers of one device or the other
    start = run.precise(
        nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(64, 3)
        )
    )
    model.load_state_dict(start.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = step(model, optimizer, run.draw(4, 2, 6, 6), run.integers(0, 3, (4,)))
        kinds = [type(part).__name__ for part in model]
        yield {"loss": loss, "model": model, "kinds": kinds, "optimizer": optimizer}


def test_lazy_modules_draw_on_the_device(device):
    """Parameters of lazy modules arise where the module was moved, by the device's own numbers."""
    model = nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(2)).to(device)
    torch.manual_seed(1)
    first = model(torch.ones(2, 3, device=device))
    again = nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(2)).to(device)
    torch.manual_seed(1)
    assert torch.equal(again(torch.ones(2, 3, device=device)), first)
    assert all(parameter.device == device for parameter in model.parameters())


@as_on_cpu
def test_deep_copies(run):
    """A copy of tied weights in the middle of training, with an optimizer of its own."""
    model = run.on_device(Tied())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def train(model, optimizer):
        words = run.integers(0, 12, (4, 5))
        loss = functional.cross_entropy(model(words).flatten(0, 1), words.roll(1, 1).flatten())
        return descend(optimizer, loss)

    for _ in range(10):
        yield {"loss": train(model, optimizer), "model": model, "optimizer": optimizer}
        assert model.scores.weight is model.words.weight
    both = copy.deepcopy({"model": model, "optimizer": optimizer})
    for _ in range(10):
        yield {
            "loss": train(model, optimizer),
            "copied loss": train(both["model"], both["optimizer"]),
            "model": model,
            "optimizer": optimizer,
            "both": both,
        }


# The backward has a thread for each device, and what several threads add up may differ in the
# last bit.
@as_on_cpu(bitwise=False)
def test_two_models_on_two_devices(run):
    """A model on CPU, or on a second device where there is one, and one on the device, in turn."""
    several = run.device.type != "cpu" and torch.accelerator.device_count() > 1
    second = torch.device(run.device.type, 1) if several else torch.device("cpu")
    first_half, second_half = run.precise(perceptron()), run.precise(perceptron())
    model = nn.ModuleList([first_half.to(run.device), second_half.to(second)])
    bridge = run.precise(nn.Linear(3, 6)).to(second)
    optimizer = torch.optim.Adam([*model.parameters(), *bridge.parameters()], lr=1e-2)
    for _ in range(20):
        inputs, classes = batch(run)
        middle = model[0](inputs).to(second)
        loss = functional.cross_entropy(model[1](bridge(middle)).to(run.device), classes)
        descend(optimizer, loss)
        yield {"loss": loss, "middle": middle, "model": model, "optimizer": optimizer}


@as_on_cpu
def test_created_on_the_device(run):
    """Modules made by `device=`, a `with torch.device` block and a default device."""
    values = run.precise(perceptron()).state_dict()
    layers = {"device": run.device, "dtype": run.dtype}
    by_argument = perceptron(**layers)
    with torch.device(run.device):
        by_block = run.precise(perceptron())
    torch.set_default_device(run.device)
    try:
        by_default = run.precise(perceptron())
        zeros = torch.zeros(3)
    finally:
        torch.set_default_device(None)
    models = [by_argument, by_block, by_default]
    torch.manual_seed(7)  # making them has drawn numbers of one device or the other
    for model in models:
        model.load_state_dict(values)
    optimizer = torch.optim.SGD(nn.ModuleList(models).parameters(), lr=0.1)
    for _ in range(10):
        inputs, classes = batch(run)
        optimizer.zero_grad()
        losses = [functional.cross_entropy(m(inputs) + zeros, classes) for m in models]
        torch.stack(losses).sum().backward()
        optimizer.step()
        yield {"losses": losses, "models": models}
