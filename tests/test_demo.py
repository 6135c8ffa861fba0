"""What `make demo` must not end with."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("sklearn", reason="the demo takes its digits from scikit-learn")
_spec = importlib.util.spec_from_file_location(
    "digits", Path(__file__).parents[1] / "examples" / "digits.py"
)
digits = importlib.util.module_from_spec(_spec)
sys.modules["digits"] = digits  # where dataclasses look for their types
_spec.loader.exec_module(digits)

CPU = digits.Side("CPU", torch.device("cpu"))


@pytest.fixture
def run(device):
    """A run on CPU, by the device's kernels and by `auto`, in which all is well."""
    sides = [CPU, digits.Side("own", device, "device"), digits.Side("auto", device, "auto")]
    by_way = [{"device": 0.9, "shared": 0.1, "copied": 0.0}, {"device": 0.0, "shared": 1.0}]
    return [sides, [0.98, 0.98, 0.98], [1e-6, 1e-6, 1e-6], by_way, 360]


def test_a_good_run(run):
    assert digits.failures(*run) == []


def test_no_kernel_on_a_device_that_runs_code(run):
    run[3][0]["device"] = 0.0
    assert len(digits.failures(*run)) == 1
    assert "no operator launched a kernel" in digits.failures(*run)[0]


def test_auto_may_take_the_host_for_everything(run):
    assert run[3][1]["device"] == 0.0
    assert digits.failures(*run) == []


@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("difference", [2 * digits.ALLOWED_DIFFERENCE, math.nan])
def test_losses_that_differ(run, side, difference):
    run[2][side] = difference
    (problem,) = digits.failures(*run)
    assert run[0][side].title in problem
    assert "differs from float64's on CPU by" in problem


def test_losses_within_the_bound(run):
    run[2][1] = 0.5 * digits.ALLOWED_DIFFERENCE
    assert digits.failures(*run) == []


def test_losses_that_differ_on_cpu_too(run):
    """Where CPU itself is far from float64, the device may be twice as far."""
    run[2][:] = [factor * digits.ALLOWED_DIFFERENCE for factor in (3, 5, 7)]
    (problem,) = digits.failures(*run)
    assert run[0][2].title in problem


def test_float64_is_the_reference(device):
    train_set = torch.utils.data.Subset(digits.digits()[0], range(2 * digits.BATCH))
    results, differences = digits.compare(train_set, [CPU], 2)
    assert len(results) == len(differences) == 1
    assert len(results[0].losses) == digits.COMPARED_STEPS
    assert 0 < differences[0] < digits.ALLOWED_DIFFERENCE


def test_a_network_that_learned_nothing(run):
    run[1][:] = [0.5, 0.5, 0.5]
    assert digits.failures(*run) == ["50.00% is below 97%"]


def test_a_checkpoint_that_is_another_network(run):
    run[1][0] = 0.9
    (problem,) = digits.failures(*run)
    assert problem == "the checkpoint is another network on CPU"


def test_sides_of_a_device(device):
    """The device's kernels have a column where it runs code."""
    from torch_outboard import _C

    ways = [side.way for side in digits.sides(device)]
    assert ways == ([None, "device", "auto"] if _C.runs_code(device.index) else [None, "auto"])
