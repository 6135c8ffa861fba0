"""The calls by which ways are compared: all families have some, and they run what they name."""

from __future__ import annotations

import pytest

from torch_outboard import ways
from torch_outboard.tuning import way_times
from torch_outboard.tuning.representative_calls import COPY, families


def test_representative_calls_are_of_known_families(device):
    known = families()
    assert COPY in known
    for family in ("pointwise", "pointwise_lists", "reduction", "matrix_product", "convolution"):
        assert known[family], f"no call stands for {family}"


@pytest.mark.parametrize(
    "represented",
    [each for calls in families().values() for each in calls],
    ids=lambda each: each.overload,
)
def test_representative_calls_run_on_the_device(device, represented):
    run = represented.prepare(device, 1 << 10)
    with ways.way("device", device):
        assert way_times.runs_on_device(run, represented)
