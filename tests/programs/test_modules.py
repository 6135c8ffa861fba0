"""Modules with weights that are computed, pruned, or sparse, and with sequences of any length."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize, prune, rnn

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, descend, perceptron, step

pytestmark = pytest.mark.separate


class Symmetric(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu() + weight.triu(1).T

    def right_inverse(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu()


class Positive(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return functional.softplus(weight)


@as_on_cpu
def test_parametrizations_of_ones_own(run):
    """Two in a row on one weight, cached for a step, assigned to, and removed in the middle."""
    model = perceptron()
    parametrize.register_parametrization(model[2], "weight", Symmetric())
    parametrize.register_parametrization(model[2], "weight", Positive(), unsafe=True)
    model = run.on_device(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for number in range(24):
        with parametrize.cached():
            once = model[2].weight is model[2].weight
            loss = step(model, optimizer, *batch(run))
        if number == 12:
            parametrize.remove_parametrizations(model[2], "weight")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        weight = model[2].weight
        yield {"loss": loss, "model": model, "weight": weight, "once": once}


def test_weight_norm(same_as_on_cpu):
    """By a parametrization, and by the older function with its hook."""

    def program(run):
        model = perceptron()
        parametrizations.weight_norm(model[0])
        parametrizations.weight_norm(model[2], dim=1)
        nn.utils.weight_norm(model[5])
        model = run.on_device(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(20):
            loss = step(model, optimizer, *batch(run))
            yield {"loss": loss, "model": model, "weights": [model[n].weight for n in (0, 2, 5)]}

    with pytest.warns(FutureWarning, match="weight_norm"):
        same_as_on_cpu(program)


@as_on_cpu
def test_spectral_norm(run):
    model = perceptron()
    parametrizations.spectral_norm(model[0])
    nn.utils.spectral_norm(model[2])
    model = run.on_device(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        loss = step(model, optimizer, *batch(run))
        yield {"loss": loss, "model": model, "weights": [model[n].weight for n in (0, 2)]}


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@as_on_cpu
def test_orthogonal_weights(run, kind):
    model = perceptron()
    parametrizations.orthogonal(model[2], orthogonal_map=kind)
    model = run.on_device(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = step(model, optimizer, *batch(run))
        yield {"loss": loss, "model": model, "weight": model[2].weight}


@as_on_cpu
def test_pruning(run):
    """By size, whole rows, over all layers, twice in a row, and made permanent in the end."""
    model = run.on_device(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for number in range(25):
        if number == 5:
            prune.l1_unstructured(model[0], "weight", amount=0.3)
        if number == 10:
            prune.ln_structured(model[2], "weight", amount=4, n=2, dim=0)
        if number == 15:
            layers = [(model[n], "weight") for n in (0, 2, 5)]
            prune.global_unstructured(layers, prune.L1Unstructured, amount=0.4)
        if number == 20:
            for layer in (0, 2, 5):
                prune.remove(model[layer], "weight")
        loss = step(model, optimizer, *batch(run))
        zeros = [int((model[n].weight == 0).sum()) for n in (0, 2, 5)]
        yield {"loss": loss, "model": model, "optimizer": optimizer, "zeros": zeros}


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@as_on_cpu(bitwise=False)  # PyTorch fuses cells on devices and sequences on CPU
def test_packed_sequences(run, kind):
    words = run.on_device(nn.Embedding(12, 6, padding_idx=0))
    network = run.on_device(kind(6, 8, num_layers=2, bidirectional=True, batch_first=True))
    last = run.on_device(nn.Linear(16, 3))
    model = nn.ModuleList([words, network, last])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        lengths = torch.randint(1, 8, (4,))
        sequences = [run.integers(1, 12, (int(length),)) for length in lengths]
        padded = rnn.pad_sequence(sequences, batch_first=True)
        packed = rnn.pack_padded_sequence(
            words(padded), lengths, batch_first=True, enforce_sorted=False
        )
        results, states = network(packed)
        unpacked, sizes = rnn.pad_packed_sequence(results, batch_first=True)
        classes = run.integers(0, 3, (4,))
        loss = functional.cross_entropy(last(unpacked.sum(1)), classes)
        descend(optimizer, loss)
        yield {"loss": loss, "model": model, "states": states, "sizes": sizes}


@as_on_cpu(bitwise=False)  # PyTorch has fused cells for devices and none for CPU
def test_recurrent_cells(run):
    """Cells in a loop, with backpropagation through time that is cut now and then."""
    cells = run.on_device(nn.ModuleList([nn.LSTMCell(4, 8), nn.GRUCell(8, 8), nn.RNNCell(8, 2)]))
    optimizer = torch.optim.RMSprop(cells.parameters(), lr=0.01)
    long, memory, short, last = (run.on_device(torch.zeros(3, n)) for n in (8, 8, 8, 2))
    loss = 0
    for number in range(24):
        long, memory = cells[0](run.draw(3, 4), (long, memory))
        short = cells[1](long, short)
        last = cells[2](short, last)
        loss = loss + (last - run.draw(3, 2)).square().mean()
        yield {"loss": loss, "cells": cells, "state": [long, memory, short, last]}
        if number % 6 == 5:
            descend(optimizer, loss)
            long, memory, short, last = (x.detach() for x in (long, memory, short, last))
            loss = 0


@pytest.mark.parametrize("make", [torch.optim.SparseAdam, torch.optim.SGD, torch.optim.Adagrad])
@as_on_cpu
def test_sparse_gradients(run, make):
    """Embeddings whose gradients hold only the rows that were used, with repetitions."""
    words = run.on_device(nn.Embedding(30, 6, sparse=True))
    bags = run.on_device(nn.EmbeddingBag(30, 6, mode="sum", sparse=True))
    last = run.on_device(nn.Linear(6, 3))
    rows = make([*words.parameters(), *bags.parameters()], lr=0.05)
    rest = torch.optim.Adam(last.parameters(), lr=0.05)
    for _ in range(20):
        indices = run.integers(0, 30, (4, 5))
        rows.zero_grad()
        rest.zero_grad()
        features = words(indices).mean(1) + bags(indices)
        loss = functional.cross_entropy(last(features), run.integers(0, 3, (4,)))
        loss.backward()
        gradient = words.weight.grad
        shown = {"sparse": gradient.is_sparse, "gradient": gradient.to_dense()}
        touched = gradient.coalesce().indices()
        rows.step()
        rest.step()
        yield {"loss": loss, "parts": [words, bags, last], "touched": touched, **shown}


NORMALIZATIONS = {
    "batch": lambda: nn.BatchNorm2d(4),
    "cumulative batch": lambda: nn.BatchNorm2d(4, momentum=None),
    "instance": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
}


@pytest.mark.parametrize("name", NORMALIZATIONS)
@as_on_cpu
def test_normalization(run, name):
    """Training and evaluation in turn: what a layer remembers of the batches it saw."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), NORMALIZATIONS[name](), nn.SiLU(), nn.Conv2d(4, 1, 3))
    model = run.on_device(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(20):
        model.train()
        loss = (model(run.draw(3, 2, 8, 8)) - 1).square().mean()
        descend(optimizer, loss)
        with torch.no_grad():
            judged = model.eval()(run.draw(1, 2, 8, 8))
        yield {"loss": loss, "model": model, "judged": judged}
