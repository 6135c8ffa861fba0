"""Indices out of range, above all those that 32 bits would turn into ones that exist."""

from __future__ import annotations

import pytest
import torch

from tests.index_probes import PROBES, WRONG, disagreement, outcome
from torch_outboard import fallback, ways

CPU = torch.device("cpu")


@pytest.mark.parametrize("way", ["device", "host"])
def test_wrong_indices_are_raised(device, way):
    wrong, tried = [], 0
    with ways.way(way):
        for probe in PROBES:
            if way == "host" and probe.follows:
                continue  # PyTorch's own kernel, which follows them
            # PyTorch's kernels for CPU take long to raise, and have no 32 bits to cut to.
            for index in probe.wrong(WRONG if way == "device" else WRONG[::6]):
                tried += 1
                if (found := disagreement(probe, index, device)) is not None:
                    wrong.append(found)
    assert not wrong, f"{len(wrong)} of {tried}: " + "; ".join(wrong[:20])
    assert tried > (2500 if way == "device" else 1000)


@pytest.mark.slow
def test_right_indices_run_on_the_device(device):
    """Or the test above would prove nothing."""
    wrong = []
    for probe in PROBES:
        for dtype in probe.dtypes:
            index = torch.tensor(probe.index, dtype=dtype)
            with fallback.report() as report:
                got, intact = outcome(probe, index, device)
            expected, _ = outcome(probe, index, CPU)
            right = intact and got is not None and expected is not None
            for there, here in zip(got or [], expected or [], strict=right):
                right = right and torch.allclose(
                    there.double(), here.double(), rtol=1e-4, atol=1e-5
                )
            if not right or not any(row.way == "device" for row in report.rows):
                wrong.append(f"{probe.name} of {dtype}")
    # What is on the CPU anyway.
    assert set(wrong) <= {f"{name} of torch.int64" for name in ("packed sequences", "tensor_split")}


def test_embeddings_ignore_their_padding_row(device):
    """Also where no row has that number."""
    for padding in (1, 2**32 + 1, -1):
        gradient = torch.ones(2, 3)
        index = torch.tensor([1, 2])
        expected = torch.ops.aten.embedding_dense_backward(gradient, index, 4, padding, False)
        got = torch.ops.aten.embedding_dense_backward(
            gradient.to(device), index.to(device), 4, padding, False
        )
        torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize("ignored", [2**32 + 1, -(2**32) + 1, 2**63 - 1, 1])
def test_ignored_targets_have_64_bits(device, ignored):
    nll_loss = torch.nn.functional.nll_loss
    scores = torch.randn(4, 3)
    target = torch.tensor([0, 1, 1, 2])
    expected = nll_loss(scores, target, ignore_index=ignored)
    got = nll_loss(scores.to(device), target.to(device), ignore_index=ignored)
    torch.testing.assert_close(got.cpu(), expected)
    target[2] = ignored
    expected = nll_loss(scores, target, ignore_index=ignored)
    got = nll_loss(scores.to(device), target.to(device), ignore_index=ignored)
    torch.testing.assert_close(got.cpu(), expected)
