"""Modules with weights that are computed, pruned, or sparse, and with sequences of any length."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize, prune, rnn

from tests.programs.training import batch, perceptron, step

pytestmark = pytest.mark.separate


class Symmetric(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu() + weight.triu(1).T

    def right_inverse(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu()


class Positive(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return functional.softplus(weight)


def test_parametrizations_of_ones_own(same_as_on_cpu):
    """Two in a row on one weight, cached for a step, assigned to, and removed in the middle."""

    def program(run):
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

    same_as_on_cpu(program)


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


def test_spectral_norm(same_as_on_cpu):
    def program(run):
        model = perceptron()
        parametrizations.spectral_norm(model[0])
        nn.utils.spectral_norm(model[2])
        model = run.on_device(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(20):
            loss = step(model, optimizer, *batch(run))
            yield {"loss": loss, "model": model, "weights": [model[n].weight for n in (0, 2)]}

    same_as_on_cpu(program)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights(same_as_on_cpu, kind):
    def program(run):
        model = perceptron()
        parametrizations.orthogonal(model[2], orthogonal_map=kind)
        model = run.on_device(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(20):
            loss = step(model, optimizer, *batch(run))
            yield {"loss": loss, "model": model, "weight": model[2].weight}

    same_as_on_cpu(program)


def test_pruning(same_as_on_cpu):
    """By size, whole rows, over all layers, twice in a row, and made permanent in the end."""

    def program(run):
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

    same_as_on_cpu(program)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_sequences(same_as_on_cpu, kind):
    def program(run):
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
            optimizer.zero_grad()
            classes = run.integers(0, 3, (4,))
            loss = functional.cross_entropy(last(unpacked.sum(1)), classes)
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "model": model, "states": states, "sizes": sizes}

    same_as_on_cpu(program, bitwise=False)  # PyTorch fuses cells on devices and sequences on CPU


def test_recurrent_cells(same_as_on_cpu):
    """Cells in a loop, with backpropagation through time that is cut now and then."""

    def program(run):
        cells = run.on_device(
            nn.ModuleList([nn.LSTMCell(4, 8), nn.GRUCell(8, 8), nn.RNNCell(8, 2)])
        )
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
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                long, memory, short, last = (x.detach() for x in (long, memory, short, last))
                loss = 0

    same_as_on_cpu(program, bitwise=False)  # PyTorch has fused cells for devices and none for CPU


@pytest.mark.parametrize("make", [torch.optim.SparseAdam, torch.optim.SGD, torch.optim.Adagrad])
def test_sparse_gradients(same_as_on_cpu, make):
    """Embeddings whose gradients hold only the rows that were used, with repetitions."""

    def program(run):
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

    same_as_on_cpu(program)


def test_embedding_bags(same_as_on_cpu):
    """Bags of different sizes by offsets, with weights, with an upper bound of the norm."""

    def program(run):
        kinds = {"mean": {}, "sum": {}, "max": {}}
        bags = nn.ModuleDict({mode: nn.EmbeddingBag(20, 5, mode=mode) for mode in kinds})
        bags["bounded"] = nn.Embedding(20, 5, max_norm=1.0)
        bags = run.on_device(bags)
        optimizer = torch.optim.SGD(bags.parameters(), lr=0.1)
        offsets = torch.tensor([0, 3, 3, 8]).to(run.device)
        for _ in range(20):
            indices = run.integers(0, 20, (12,))
            weights = run.draw(12).requires_grad_()
            results = [bags[mode](indices, offsets) for mode in ("mean", "max")]
            results.append(bags["sum"](indices, offsets, per_sample_weights=weights))
            results.append(bags["bounded"](indices[:4]))
            optimizer.zero_grad()
            loss = torch.stack(results).tanh().square().sum()
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "bags": bags, "results": results, "weights": weights.grad}

    same_as_on_cpu(program)


NORMALIZATIONS = {
    "batch": lambda: nn.BatchNorm2d(4),
    "batch without memory": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "cumulative batch": lambda: nn.BatchNorm2d(4, momentum=None),
    "group": lambda: nn.GroupNorm(2, 4),
    "instance": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "layer": lambda: nn.LayerNorm([4, 6, 6]),
    "local response": lambda: nn.LocalResponseNorm(2),
    "RMS": lambda: nn.RMSNorm([4, 6, 6]),
}


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_normalization(same_as_on_cpu, name):
    """Training and evaluation in turn: what a layer remembers of the batches it saw."""

    def program(run):
        model = nn.Sequential(
            nn.Conv2d(2, 4, 3), NORMALIZATIONS[name](), nn.SiLU(), nn.Conv2d(4, 1, 3)
        )
        model = run.on_device(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(20):
            model.train()
            optimizer.zero_grad()
            loss = (model(run.draw(3, 2, 8, 8)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                judged = model.eval()(run.draw(1, 2, 8, 8))
            yield {"loss": loss, "model": model, "judged": judged}

    same_as_on_cpu(program)


def test_fused_for_inference(same_as_on_cpu):
    """Convolution and batch normalization become one layer."""

    def program(run):
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)).to(run.device)
        model.load_state_dict(nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)).state_dict())
        model = run.precise(model) if run.device.type == "cpu" else model
        for _ in range(10):
            scores = model.train()(run.draw(4, 2, 8, 8))
            fused = nn.utils.fuse_conv_bn_eval(model[0].eval(), model[1].eval())
            images = run.draw(2, 2, 8, 8)
            with torch.no_grad():
                yield {
                    "scores": scores,
                    "model": model,
                    "fused": fused(images),
                    "twice": model(images),
                }

    same_as_on_cpu(program)


LOSSES = {
    "BCEWithLogitsLoss": lambda run: run.integers(0, 2, (6, 3)).to(run.dtype),
    "CosineEmbeddingLoss": None,
    "GaussianNLLLoss": None,
    "HuberLoss": lambda run: run.draw(6, 3),
    "KLDivLoss": lambda run: run.draw(6, 3).softmax(-1),
    "L1Loss": lambda run: run.draw(6, 3),
    "MultiLabelMarginLoss": lambda run: run.integers(0, 3, (6, 3)),
    "MultiMarginLoss": lambda run: run.integers(0, 3, (6,)),
    "PoissonNLLLoss": lambda run: run.integers(0, 5, (6, 3)).to(run.dtype),
    "SmoothL1Loss": lambda run: run.draw(6, 3),
    "SoftMarginLoss": lambda run: (run.integers(0, 2, (6, 3)) * 2 - 1).to(run.dtype),
    "TripletMarginLoss": None,
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(same_as_on_cpu, name):
    def program(run):
        model = run.on_device(perceptron())
        loss_of = getattr(nn, name)(**({"reduction": "batchmean"} if name == "KLDivLoss" else {}))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for _ in range(20):
            scores = model(run.draw(6, 6))
            if name == "KLDivLoss":
                scores = scores.log_softmax(-1)
            if LOSSES[name]:
                loss = loss_of(scores, LOSSES[name](run))
            elif name == "CosineEmbeddingLoss":
                loss = loss_of(scores, run.draw(6, 3), run.integers(0, 2, (6,)) * 2 - 1)
            elif name == "GaussianNLLLoss":
                loss = loss_of(scores, run.draw(6, 3), scores.exp())
            else:
                loss = loss_of(scores, run.draw(6, 3), run.draw(6, 3))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "model": model}

    same_as_on_cpu(program)
