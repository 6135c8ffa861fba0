"""Times of calls by both ways, with a clock of the tests' own and with the real one."""

from __future__ import annotations

import time

import pytest
import torch

from tests.device_kernels.clock import ADD, SUM, Clock, call
from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback
from torch_outboard.tuning import way_times


@pytest.fixture(autouse=True)
def shared_memory(shares_memory):
    if not shares_memory:
        pytest.skip("there is nothing to tune where host and device share no memory")


def measure(device, calls, sizes, compare):
    return way_times.measure(calls, device, sizes, compare, lambda _: None)


def test_the_ways_are_those_that_are_measured(device):
    """Both sides of a comparison run what they are named after."""
    seen = {}

    def compare(run, take, names, synchronize):
        for way in names:
            take(way)
            with fallback.report() as report:
                run()
            seen[way] = ways_of(report)["aten::add.Tensor"]
        return dict.fromkeys(names, 1e-6)

    measure(device, {"pointwise": [ADD]}, [8], compare)
    assert seen == {"device": "device", "host": "shared"}


def test_times_are_medians_by_family_and_by_operator(device):
    clock = Clock(
        (2e-6, 4e-6), (3e-6, 5e-6), (4e-6, 6e-6), (7e-6, 5e-6), (1e-6, 1e-6), (9e-6, 9e-6)
    )
    calls = {"pointwise": [ADD, ADD], "reduction": [SUM]}
    found = measure(device, calls, [8, 64], clock)
    both = {8: (3.0, 5.0), 64: (5.0, 5.0)}
    one = {8: (1.0, 1.0), 64: (9.0, 9.0)}
    assert found == {"pointwise": both, "aten::add": both, "reduction": one, "aten::sum": one}


def test_what_takes_long_is_not_made_larger(device):
    found = measure(device, {"pointwise": [ADD]}, [8, 64, 512], Clock((1e-6, 1e-6), (1.0, 1e-6)))
    assert list(found["aten::add"]) == [8, 64]


def test_what_no_device_kernel_takes_is_not_measured(device):
    det = call("aten::_linalg_det", torch.eye, torch.linalg.det)
    assert measure(device, {"solver": [det]}, [8], Clock()) == {}


def test_the_real_clock():
    """The slower way is found, and chosen in turn with the other one."""
    taken = []

    def run():
        if taken[-1] == "slow":
            time.sleep(0.01)

    found = way_times.compare(run, taken.append, ("slow", "fast"), lambda: None)
    assert found["slow"] > 0.009 > found["fast"]
    assert taken == ["slow", "fast"] * (1 + way_times.ROUNDS)
