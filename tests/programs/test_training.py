"""Training loops: accumulation, clipping, exceptions, streams, threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, descend, gradients_of, perceptron, step

pytestmark = pytest.mark.separate


@pytest.mark.parametrize("clip", ["norm", "value"])
@as_on_cpu
def test_accumulation_and_clipping(run, clip):
    model = run.on_device(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for number in range(12):
        inputs, classes = batch(run)
        loss = functional.cross_entropy(model(inputs), classes) / 4
        loss.backward()
        shown = {"loss": loss, "gradients": gradients_of(model)}
        if number % 4 == 3:
            parameters = list(model.parameters())
            if clip == "value":
                nn.utils.clip_grad_value_(parameters, 0.05)
            else:
                shown["norm"] = nn.utils.clip_grad_norm_(parameters, 0.2, foreach=True)
            optimizer.step()
            optimizer.zero_grad(set_to_none=number % 8 == 3)
        yield {**shown, "model": model, "optimizer": optimizer}


@as_on_cpu
def test_saved_tensors_elsewhere(run):
    """Tensors for the backward pass are saved on CPU, by PyTorch's hooks for saved tensors."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number in range(4):
        inputs, classes = batch(run)
        with torch.autograd.graph.save_on_cpu(pin_memory=number % 2 == 1):
            loss = functional.cross_entropy(model(inputs), classes)
        descend(optimizer, loss)
        yield {"loss": loss, "model": model}


class Failure(Exception):
    pass


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise Failure("in the backward pass")


@as_on_cpu
def test_going_on_after_exceptions(run):
    """Mistakes of all kinds in the middle of a step, after which training goes on."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    inputs, classes = batch(run)

    def changed():
        middle = model[1](model[0](inputs))
        middle.add_(1)
        middle.sum().backward()

    mistakes = (
        (ValueError, lambda: functional.cross_entropy(model(inputs), classes[:3])),
        (RuntimeError, lambda: model(inputs[:, :2])),
        (Failure, lambda: FailsBackward.apply(model(inputs)).sum().backward()),
        (RuntimeError, lambda: model(inputs).sum().backward(torch.ones(7, device=run.device))),
        (IndexError, lambda: inputs[99]),
        (RuntimeError, lambda: model[0].weight.add_(1)),
        (RuntimeError, changed),
    )
    for kind, make in mistakes:
        with pytest.raises(kind):
            make()
        loss = step(model, optimizer, inputs, classes)
        yield {"loss": loss, "model": model, "optimizer": optimizer}


@pytest.mark.faults
@as_on_cpu
def test_streams_of_ones_own(run):
    """Batches come on a stream of their own while another one trains; events order the two."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    on_cpu = [(run.precise(torch.randn(64, 6)), torch.randint(0, 3, (64,))) for _ in range(10)]
    if run.device.type == "cpu":
        for inputs, classes in on_cpu:
            yield {"loss": step(model, optimizer, inputs, classes), "model": model}
        return
    loading, training = torch.Stream(run.device), torch.Stream(run.device)
    training.wait_stream(torch.accelerator.current_stream(run.device))
    for inputs, classes in on_cpu:
        with loading:
            moved = [
                value.pin_memory().to(run.device, non_blocking=True) for value in (inputs, classes)
            ]
            ready = loading.record_event()
        with training:
            training.wait_event(ready)
            for value in moved:
                value.record_stream(training)
            loss = step(model, optimizer, *moved)
            del moved
        training.synchronize()
        yield {"loss": loss, "model": model}


@pytest.mark.faults
# Sums are cut by how many threads a thread may use, which new threads find out anew.
@as_on_cpu(bitwise=False)
def test_threads(run):
    """Four threads train four models at a time, each as it would alone."""
    models = [run.on_device(perceptron(8)) for _ in range(4)]
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in models]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            batches = [batch(run) for _ in models]
            losses = list(pool.map(step, models, optimizers, *zip(*batches, strict=True)))
            yield {"losses": losses, "models": models}
