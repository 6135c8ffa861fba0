"""Indices out of range, above all those that 32 bits would turn into ones that exist."""

from functools import partial

import pytest
import torch
from torch.nn.functional import nll_loss

from tests.device_kernels.on_device import assert_raises_as_on_cpu, compare
from tests.index_probes import PROBES, WRONG, Memory, disagreement, outcome
from tests.turns import number_of, turn
from torch_outboard import fallback
from torch_outboard.scoreboard.comparison.calls import CPU, attempt


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
    # Their indices are on the CPU anyway.
    assert set(wrong) <= {f"{name} of torch.int64" for name in ("packed sequences", "tensor_split")}


def test_embeddings_ignore_their_padding_row(device):
    """Also where no row has that number."""
    backward = torch.ops.aten.embedding_dense_backward
    for padding in (1, 2**32 + 1, -1):
        compare(device, backward, torch.ones(2, 3), torch.tensor([1, 2]), 4, padding, False)


# CPU raises one type for rows and another one for columns.
OTHER_TYPES = {
    "new(3, 4).index_select(1, i)",
    "new(3, 4).index_add_(1, i, new(3, 2), alpha=2)",
}


def test_exceptions_are_those_of_cpu(device):
    wrong = {}
    for probe in PROBES:
        if probe.follows:
            continue  # on CPU that writes elsewhere
        index = next(probe.wrong(()))

        def call(location, probe=probe, index=index):
            probe.call(index.to(location), Memory(location))
            torch.accelerator.synchronize()

        kinds = [type(attempt(partial(call, location)).error) for location in (CPU, device)]
        attempt(torch.accelerator.synchronize)  # what else was found wrong meanwhile
        if kinds[0] is not kinds[1]:
            wrong[probe.name] = kinds
    assert set(wrong) <= OTHER_TYPES, wrong
    assert_raises_as_on_cpu(device, lambda x: x.expand(3, 3)[x[:2] > 0], torch.zeros(3))


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
