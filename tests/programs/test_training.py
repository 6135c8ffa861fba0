"""Training loops: accumulation, clipping, precision, evaluation, exceptions, streams, threads."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, descend, gradients_of, perceptron, step

pytestmark = pytest.mark.separate


@pytest.mark.parametrize("clip", ["norm", "norm foreach", "infinity", "value"])
@as_on_cpu
def test_accumulation_and_clipping(run, clip):
    model = run.on_device(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for number in range(24):
        inputs, classes = batch(run)
        loss = functional.cross_entropy(model(inputs), classes) / 4
        loss.backward()
        shown = {"loss": loss, "gradients": gradients_of(model)}
        if number % 4 == 3:
            parameters = list(model.parameters())
            if clip == "value":
                nn.utils.clip_grad_value_(parameters, 0.05)
            else:
                shown["norm"] = nn.utils.clip_grad_norm_(
                    parameters,
                    0.2,
                    norm_type=torch.inf if clip == "infinity" else 2.0,
                    foreach=clip == "norm foreach",
                )
            optimizer.step()
            optimizer.zero_grad(set_to_none=number % 8 == 3)
        yield {**shown, "model": model, "optimizer": optimizer}


# Of autocast's lists each device has its own.
@as_on_cpu(bitwise=False, relative=1e-2)
def test_bfloat16_mixed_precision(run):
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        inputs, classes = batch(run)
        with run.autocast(torch.bfloat16):
            scores = model(inputs)
        loss = functional.cross_entropy(scores.to(run.dtype), classes)
        descend(optimizer, loss)
        yield {"loss": loss, "model": model}


def test_gradient_scaler(same_as_on_cpu):
    """float16 with a scale that grows, and steps that are left out because gradients overflow."""

    def program(run):
        model = run.on_device(perceptron())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(
            run.device.type, init_scale=256.0, growth_interval=4, enabled=True
        )
        for number in range(24):
            inputs, classes = batch(run)
            optimizer.zero_grad()
            with run.autocast(torch.float16):
                scores = model(inputs)
            loss = functional.cross_entropy(scores.to(run.dtype), classes)
            if number in (7, 15):
                loss = loss * torch.inf
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            yield {"loss": loss, "norm": norm, "scale": scaler.get_scale(), "model": model}

    steps = same_as_on_cpu(program, bitwise=False, relative=2e-3)
    scales = [step.values["scale"] for step in steps]
    assert max(scales) > 256
    assert scales[7] < scales[6]


@as_on_cpu
def test_saved_tensors_elsewhere(run):
    """What the backward pass needs is kept on CPU, by PyTorch's hooks for saved tensors."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number in range(20):
        inputs, classes = batch(run)
        with torch.autograd.graph.save_on_cpu(pin_memory=number % 2 == 1):
            loss = functional.cross_entropy(model(inputs), classes)
        descend(optimizer, loss)
        yield {"loss": loss, "model": model}


@as_on_cpu
def test_evaluation_in_between(run):
    """Statistics of batches in training, none in evaluation; modes without gradients."""
    # With a bias before the norm, whose gradient is nothing but rounding, Adam would make steps
    # of any sign, which evaluation shows.
    first = nn.Linear(6, 8, bias=False)
    model = run.on_device(nn.Sequential(first, nn.BatchNorm1d(8), nn.Dropout(0.0), nn.Linear(8, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    held_out = batch(run, 16)
    for number in range(24):
        loss = step(model.train(), optimizer, *batch(run))
        shown = {"loss": loss, "model": model}
        if number % 3 == 0:
            model.eval()
            mode = torch.inference_mode if number % 2 else torch.no_grad
            with mode():
                scores = model(held_out[0])
                shown["held out"] = functional.cross_entropy(scores, held_out[1]).item()
                shown["right"] = int((scores.argmax(1) == held_out[1]).sum())
                shown["gradient"] = scores.requires_grad
        yield shown


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

    def mistakes(run, model, inputs, classes):
        yield ValueError, lambda: functional.cross_entropy(model(inputs), classes[:3])
        yield RuntimeError, lambda: model(inputs[:, :2])
        yield Failure, lambda: FailsBackward.apply(model(inputs)).sum().backward()
        yield RuntimeError, lambda: model(inputs).sum().backward(torch.ones(7, device=run.device))
        yield IndexError, lambda: inputs[99]
        yield RuntimeError, lambda: model[0].weight.add_(1)

        def twice():
            loss = model(inputs).sum()
            loss.backward()
            loss.backward()

        yield RuntimeError, twice

        def changed():
            middle = model[1](model[0](inputs))
            middle.add_(1)
            middle.sum().backward()

        yield RuntimeError, changed

    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    count = len(list(mistakes(run, model, None, None)))
    for number in range(24):
        inputs, classes = batch(run)
        kind, make = list(mistakes(run, model, inputs, classes))[number % count]
        with pytest.raises(kind):
            make()
        loss = step(model, optimizer, inputs, classes)
        yield {"loss": loss, "model": model, "optimizer": optimizer}


@pytest.mark.torture
@as_on_cpu
def test_streams_of_ones_own(run):
    """Batches come on a stream of their own while another one trains; events order the two."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    on_cpu = [(run.precise(torch.randn(64, 6)), torch.randint(0, 3, (64,))) for _ in range(20)]
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


@pytest.mark.torture
# Sums are cut by how many threads a thread may use, which new threads find out anew.
@as_on_cpu(bitwise=False)
def test_threads(run):
    """Four threads train four models at a time, each as it would alone."""
    from concurrent.futures import ThreadPoolExecutor

    models = [run.on_device(perceptron(8)) for _ in range(4)]
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in models]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            batches = [batch(run) for _ in models]
            losses = list(pool.map(step, models, optimizers, *zip(*batches, strict=True)))
            yield {"losses": losses, "models": models}


# As above: the thread of the backward pass is another one than on CPU.
@as_on_cpu(bitwise=False)
def test_multithreaded_backward_pass(run):
    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with torch.autograd.set_multithreading_enabled(True):
        for _ in range(20):
            yield {"loss": step(model, optimizer, *batch(run)), "model": model}
