"""Modules for sequences of any length, and embeddings of sparse gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn

from tests.programs.comparison import as_on_cpu
from tests.programs.training import descend


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@as_on_cpu(bitwise=False)  # PyTorch fuses cells on devices and sequences on CPU
def test_packed_sequences(run, kind):
    words = run.on_device(nn.Embedding(12, 6, padding_idx=0))
    network = run.on_device(kind(6, 8, num_layers=2, bidirectional=True, batch_first=True))
    last = run.on_device(nn.Linear(16, 3))
    model = nn.ModuleList([words, network, last])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
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


@pytest.mark.separate
@pytest.mark.parametrize("make", [torch.optim.SparseAdam, torch.optim.SGD, torch.optim.Adagrad])
@as_on_cpu
def test_sparse_gradients(run, make):
    """Embeddings whose gradients hold only the rows that were used, with repetitions."""
    words = run.on_device(nn.Embedding(30, 6, sparse=True))
    bags = run.on_device(nn.EmbeddingBag(30, 6, mode="sum", sparse=True))
    rows = make([*words.parameters(), *bags.parameters()], lr=0.05)
    for _ in range(4):
        indices = run.integers(0, 30, (4, 5))
        rows.zero_grad()
        features = words(indices).mean(1) + bags(indices)
        loss = functional.cross_entropy(features, run.integers(0, 3, (4,)))
        loss.backward()
        gradient = words.weight.grad
        shown = {"sparse": gradient.is_sparse, "gradient": gradient.to_dense()}
        touched = gradient.coalesce().indices()
        rows.step()
        yield {"loss": loss, "parts": [words, bags], "touched": touched, **shown}
