"""Errors that `make demo` must not end with."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.py"


@pytest.fixture
def digits(monkeypatch):
    pytest.importorskip("sklearn", reason="the demo takes its digits from scikit-learn")
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "digits", module)  # where dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def test_what_fails(device, digits):
    # A run in which all is well.
    cpu = torch.device("cpu")
    sides = [
        digits.Side("CPU", cpu),
        digits.Side("CPU, compiled", cpu, compiled=True),
        digits.Side("own", device, "device"),
        digits.Side("own, compiled", device, "device", compiled=True),
    ]
    allowed = digits.ALLOWED_DIFFERENCE
    well = {"shares": {"device": 0.9, "host": 0.1, "copied": 0.0}, "accuracies": (0.98,) * 4}
    well["differences"] = (1e-6,) * 4

    def failures(**changed):
        run = well | changed
        return digits.failures(
            sides, list(run["accuracies"]), list(run["differences"]), run["shares"], 360
        )

    assert digits.device_side(sides) is sides[2]
    assert failures() == failures(differences=(1e-6, allowed / 2, 1e-6, 1e-6)) == []
    (problem,) = failures(shares={"device": 0.0, "host": 1.0, "copied": 0.0})
    assert "no operator launched a kernel" in problem
    assert failures(accuracies=(0.5,) * 4) == ["50.00% is below 97%"]
    found = failures(accuracies=(0.9, 0.98, 0.98, 0.98))
    assert found == ["the checkpoint is another network on CPU"]
    # Where CPU itself is far from float64, the device may be twice as far.
    far = (3 * allowed, 1e-6, 5 * allowed, 7 * allowed)
    for differences in ((1e-6, 1e-6, 1e-6, 2 * allowed), (1e-6, 1e-6, 1e-6, math.nan), far):
        (problem,) = failures(differences=differences)
        assert sides[3].title in problem
        assert "differs from float64's on CPU by" in problem


def test_sides_are_those_that_are_asked_for(device, digits):
    eager, compiled = digits.sides(device, False), digits.sides(device, True)
    assert [side.compiled for side in eager] == [False, False]
    assert [side.compiled for side in compiled] == [False, True, False, True]
    assert compiled[0].setting is compiled[1].setting is None
    assert str(device) in digits.description(device)
