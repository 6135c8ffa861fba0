"""The table by which `auto` decides, from times of calls."""

from __future__ import annotations

from torch_outboard.tuning import way_savings
from torch_outboard.tuning.representative_calls import families
from torch_outboard.tuning.way_savings import table

# Sizes in the middle of what an element of a list stands for: 768 and 3,072.
SMALL, LARGE = 10, 12
TIMES = {"pointwise": {768: (8.0, 3.0), 3072: (98.0, 33.0)}}


def test_savings_are_differences_in_nanoseconds():
    """Between sizes times are interpolated, and beyond they grow."""
    saved = table(TIMES, 0.0)["pointwise"]
    assert len(saved) == 32
    assert (saved[SMALL], saved[LARGE]) == (5_000, 65_000)
    assert saved[SMALL - 1] == saved[SMALL]
    assert saved[11] == 25_000  # 1,536 elements: 38 and 13 us
    assert saved[LARGE + 1] == 130_000
    assert saved[31] == 2**31 - 1
    for side, sign in (("host", 1), ("device", -1)):  # all programs on one side
        assert {saving * sign > 0 for saving in table(TIMES, side)["pointwise"]} == {True}


def test_what_runs_beside_python_does_not_count():
    """But the 8 us that Python waits for every call do, and no more than the call takes."""
    for beside, expected in ((20.0, 45_000), (90.0, -25_000), (500.0, -25_000)):
        saved = table(TIMES, beside)["pointwise"]
        assert (saved[SMALL], saved[LARGE]) == (5_000, expected)


def test_typical_times_instead_of_measured_ones():
    typical = table(way_savings.TYPICAL, way_savings.TYPICAL_BESIDE)
    assert table(TIMES, "typical") == typical
    assert table(TIMES, way_savings.TYPICAL_BESIDE)["pointwise"] != typical["pointwise"]
    assert set(way_savings.TYPICAL) <= set(families())
