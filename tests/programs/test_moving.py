"""Modules, parameters and optimizers that move between CPU and the device while they are in use."""

import contextlib
import copy
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, descend, gradients_of, perceptron, step, steps


@pytest.mark.separate
@as_on_cpu
def test_state_of_the_optimizer_follows(run):
    """Trains on the device and on CPU in turn; `load_state_dict` moves the optimizer's state."""
    model = run.precise(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        location = run.device if epoch % 2 == 0 else torch.device("cpu")
        model.to(location)
        optimizer.load_state_dict(optimizer.state_dict())
        for _ in range(2):
            inputs, classes = batch(run)
            loss = step(model, optimizer, inputs.to(location), classes.to(location))
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
    for number in range(6):
        loss = step(model, optimizer, *batch(run))
        if number == 3:
            for parameter in held:
                parameter.data = parameter.data * 0.5
        yield {"loss": loss, "held": held, "model": model, "optimizer": optimizer}


@as_on_cpu
def test_from_meta_by_to_empty(run):
    values = run.precise(perceptron()).state_dict()
    with torch.device("meta"):
        model = run.precise(perceptron())
    model.to_empty(device=run.device)
    model.load_state_dict(values)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    yield from steps(run, model, optimizer, optimizer=optimizer)


def test_lazy_modules_draw_on_the_device(device):
    """Parameters of lazy modules arise where the module was moved, by the device's own numbers."""
    results = []
    for _ in range(2):
        model = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d()).to(device)
        torch.manual_seed(1)
        results.append(model(torch.arange(6.0, device=device).view(2, 3)))
        for value in (*model.parameters(), *model.buffers()):
            assert value.device == device
    assert torch.equal(*results)


# The backward has a thread for each device, and what several threads add up may differ in the
# last bit.
@pytest.mark.separate
@as_on_cpu(bitwise=False)
def test_two_models_on_two_devices(run):
    """A model on CPU, or on a second device where there is one, and one on the device, in turn."""
    several = run.device.type != "cpu" and torch.accelerator.device_count() > 1
    second = torch.device(run.device.type, 1) if several else torch.device("cpu")
    first_half, second_half = run.precise(perceptron()), run.precise(perceptron())
    model = nn.ModuleList([first_half.to(run.device), second_half.to(second)])
    bridge = run.precise(nn.Linear(3, 6)).to(second)
    optimizer = torch.optim.Adam([*model.parameters(), *bridge.parameters()], lr=1e-2)
    for _ in range(6):
        inputs, classes = batch(run)
        middle = model[0](inputs).to(second)
        loss = functional.cross_entropy(model[1](bridge(middle)).to(run.device), classes)
        descend(optimizer, loss)
        yield {"loss": loss, "middle": middle, "model": model, "optimizer": optimizer}


def test_created_on_the_device(device):
    """Modules made by `device=`, a `with torch.device` block and a default device."""
    models = [perceptron(device=device)]
    with torch.device(device):
        models.append(perceptron())
    torch.set_default_device(device)
    try:
        models.append(perceptron())
        inputs, weight = torch.randn(2, 6), torch.tensor([2.0])
    finally:
        torch.set_default_device(None)
    for model in models:
        model.load_state_dict(models[0].state_dict())
        assert all(parameter.device == device for parameter in model.parameters())
        assert torch.equal(model(inputs) * weight, models[0](inputs) * weight)


# ---- Conversions of modules ---------------------------------------------------------------------

# With buffers of integers, weights of several layers, parameters that are absent, embeddings.
MODULES = {
    "BatchNorm2d": lambda: nn.BatchNorm2d(3),
    "LSTM": lambda: nn.LSTM(3, 4, num_layers=2, proj_size=2),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5),
    "EmbeddingBag": lambda: nn.EmbeddingBag(4, 3, padding_idx=1),
}


@contextlib.contextmanager
def conversion(how: str) -> Iterator[None]:
    """How `Module.to` gives parameters their new data: "data", "swap" or "overwrite"."""
    future = torch.__future__
    setters = {
        "swap": future.set_swap_module_params_on_conversion,
        "overwrite": future.set_overwrite_module_params_on_conversion,
    }
    choose = setters.get(how, lambda _: None)
    choose(True)
    try:
        yield
    finally:
        choose(False)


@pytest.mark.parametrize("how", ["data", "swap", "overwrite"])
@pytest.mark.parametrize("name", MODULES)
def test_conversions(device, name, how):
    """There and back with gradients, by another dtype; parameters stay the same objects."""
    module = MODULES[name]()
    before = copy.deepcopy(module.state_dict())
    parameters = dict(module.named_parameters())
    for parameter in parameters.values():
        parameter.grad = torch.randn_like(parameter)
    gradients = {key: value.grad.clone() for key, value in parameters.items()}
    with conversion(how):
        for dtype in (None, torch.float64, torch.float32):
            module.to(device, dtype)
            for value in (*module.parameters(), *module.buffers()):
                assert value.device == device
            for value in module.parameters():
                assert value.grad.device == device
                assert value.dtype == value.grad.dtype == (dtype or torch.float32)
        if how != "overwrite":
            for key, value in module.named_parameters():
                assert value is parameters[key], key
        module.cpu()
    found = {key: value.grad for key, value in module.named_parameters()}
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)
    torch.testing.assert_close(found, gradients, rtol=0, atol=0)
