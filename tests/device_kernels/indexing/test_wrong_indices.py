"""Indices out of range, above all those that 32 bits would turn into ones that exist."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn.functional import nll_loss

from tests.device_kernels.on_device import compare
from tests.index_probes import PROBES, WRONG, disagreement, outcome
from tests.turns import number_of, turn
from torch_outboard import fallback

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("values", "least"),
    [
        (WRONG[number_of(turn()) % 6 :: 6], 1000),  # those next to the right ones always
        pytest.param(WRONG, 2500, marks=pytest.mark.slow),
    ],
    ids=["in turn", "all"],
)
def test_wrong_indices_are_raised(device, values, least):
    wrong, tried = [], 0
    for probe in PROBES:
        for index in probe.wrong(values):
            tried += 1
            if (found := disagreement(probe, index, device)) is not None:
                wrong.append(found)
    assert not wrong, f"{len(wrong)} of {tried}: " + "; ".join(wrong[:20])
    assert tried > least


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
            if not right or not any(row.placement == "device" for row in report.rows):
                wrong.append(f"{probe.name} of {dtype}")
    # What is on the CPU anyway.
    assert set(wrong) <= {f"{name} of torch.int64" for name in ("packed sequences", "tensor_split")}


def test_embeddings_ignore_their_padding_row(device):
    """Also where no row has that number."""
    backward = torch.ops.aten.embedding_dense_backward
    for padding in (1, 2**32 + 1, -1):
        compare(device, backward, torch.ones(2, 3), torch.tensor([1, 2]), 4, padding, False)


WRITERS = {
    "index_add_": lambda x, i, one: x.index_add_(0, i, one),
    "index_copy_": lambda x, i, one: x.index_copy_(0, i, one),
    "index_fill_": lambda x, i, one: x.index_fill_(0, i, 1),
    "index_reduce_": lambda x, i, one: x.index_reduce_(0, i, one, "amax"),
    "index_put_": lambda x, i, one: x.index_put_((i,), one),
    "put_": lambda x, i, one: x.put_(i, one),
    "scatter_": lambda x, i, one: x.scatter_(0, i, one),
    "gather": lambda x, i, one: x.gather(0, i),
    "take": lambda x, i, one: x.take(i),
    "index_select": lambda x, i, one: x.index_select(0, i),
    "index": lambda x, i, one: x[i],
    "a mask of another size": lambda x, i, one: x.expand(3, 3)[x[:2] > 0],
}


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_exceptions_are_those_of_cpu(device):
    wrong = {}
    for name, call in WRITERS.items():
        kinds = []
        for place in (CPU, device):
            x = torch.zeros(3, device=place)
            try:
                call(x, torch.tensor([7], device=place), torch.ones(1, device=place)).sum().item()
                kinds.append(None)
            except (IndexError, RuntimeError) as error:
                kinds.append(type(error))
        if kinds[0] is not kinds[1]:
            wrong[name] = kinds
    assert not wrong


def test_sums_of_repeats_that_overflow(device):
    """On CPU the sum wraps, and memory is written that is no result."""
    repeats = torch.tensor([2**62] * 4 + [3], device=device)
    with pytest.raises(RuntimeError, match="overflows int64"):
        torch.repeat_interleave(repeats)


def test_ignored_targets_have_64_bits(device):
    scores = torch.randn(4, 3)
    for ignored in (2**32 + 1, -(2**32) + 1, 2**63 - 1, 1):
        for target in (torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, ignored, 2])):
            loss = partial(nll_loss, ignore_index=ignored)
            compare(device, loss, scores, target, support={"aten::nll_loss_forward"})
