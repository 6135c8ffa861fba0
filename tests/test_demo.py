"""Errors that `make demo` must not end with."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.py"


def test_what_fails(device, monkeypatch):
    pytest.importorskip("sklearn", reason="the demo takes its digits from scikit-learn")
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    digits = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "digits", digits)  # where dataclasses look for their types
    spec.loader.exec_module(digits)
    # A run on CPU, by the device's kernels and by `auto`, in which all is well.
    sides = [
        digits.Side("CPU", torch.device("cpu")),
        digits.Side("own", device, "device"),
        digits.Side("auto", device, "auto"),
    ]
    by_side = [{"device": 0.9, "host": 0.1, "copied": 0.0}, {"device": 0.0, "host": 1.0}]
    allowed = digits.ALLOWED_DIFFERENCE

    def failures(shares=by_side, accuracies=(0.98, 0.98, 0.98), differences=(1e-6, 1e-6, 1e-6)):
        return digits.failures(sides, list(accuracies), list(differences), shares, 360)

    assert failures() == failures(differences=(1e-6, allowed / 2, 1e-6)) == []
    (problem,) = failures(shares=[{"device": 0.0, "host": 1.0}, by_side[1]])
    assert "no operator launched a kernel" in problem
    assert failures(accuracies=(0.5, 0.5, 0.5)) == ["50.00% is below 97%"]
    found = failures(accuracies=(0.9, 0.98, 0.98))
    assert found == ["the checkpoint is another network on CPU"]
    # Where CPU itself is far from float64, the device may be twice as far.
    far = (3 * allowed, 5 * allowed, 7 * allowed)
    for differences in ((1e-6, 1e-6, 2 * allowed), (1e-6, 1e-6, math.nan), far):
        (problem,) = failures(differences=differences)
        assert sides[2].title in problem
        assert "differs from float64's on CPU by" in problem
