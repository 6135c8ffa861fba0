"""Times of calls by both ways, with a clock of the tests' own and with the real one."""

from __future__ import annotations

import time

import pytest
import torch

from tests.device_kernels.clock import ADD, SUM, Clock
from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback, ways
from torch_outboard.tuning import way_ratios
from torch_outboard.tuning.way_ratios import REPEATS


@pytest.fixture(autouse=True)
def shared_memory(shares_memory):
    if not shares_memory:
        pytest.skip("there is nothing to tune where host and device share no memory")


def test_the_ways_are_those_that_are_measured(device):
    """Both sides of a comparison run what they are named after."""
    seen = {}

    def compare(run, take, synchronize):
        for way in ("device", "host"):
            take(way)
            with fallback.report() as report:
                run()
            seen[way] = ways_of(report)["aten::add.Tensor"]
        return 1.0, 1.0

    way_ratios.measure_operators([ADD], device, [8], compare, lambda _: None)
    assert seen == {"device": "device", "host": "shared"}


def test_calls_are_measured_by_operator(device):
    clock = Clock(0.5, 1.5, 0.2, 0.4, 1.6, 3.0)
    found = way_ratios.measure_operators([ADD, SUM, ADD], device, [8, 64], clock, lambda _: None)
    assert found == {
        "aten::add": {8: [0.5, 0.2], 64: [0.4, 3.0]}, "aten::sum": {8: [1.5], 64: [1.6]}
    }  # fmt: skip


def test_what_is_unclear_is_measured_again(device):
    run = ADD.prepare(device, 8)
    clock = Clock(0.8, 2.0, 1.1)
    assert way_ratios.call_ratio(run, device, clock) == 1.1
    assert clock.compared == REPEATS
    assert way_ratios.call_ratio(run, device, Clock(0.5)) == 0.5


def test_two_measurements_that_agree_will_do(device):
    run = ADD.prepare(device, 8)
    clock = Clock(1.0, 1.2)
    assert way_ratios.call_ratio(run, device, clock) == pytest.approx(1.1)
    assert clock.compared == 2


def test_calls_that_would_take_long_are_left_out(device):
    """Twice the elements take four times as long: 0.2 s of 64 become 0.8 s of 128."""

    class Growing(Clock):
        def __call__(self, run, take, synchronize):
            super().__call__(run, take, synchronize)
            return 0.05 * 4 ** (self.compared - 1) / 2, 0.05 * 4 ** (self.compared - 1)

    clock = Growing()
    found = way_ratios.measure_operators([ADD], device, [32, 64, 128], clock, lambda _: None)
    assert found == {"aten::add": {32: [0.5], 64: [0.5]}}


@pytest.mark.parametrize(
    ("measured", "expected"),
    [([], 0), ([(8, 0.1)], 0), ([(8, 0.1), (16, 0.2)], 0.4), ([(8, 0.2), (16, 0.1)], 0.1)],
)
def test_expected_seconds(measured, expected):
    assert way_ratios.expected_seconds(measured, 32) == pytest.approx(expected)


def test_the_mean_counts_unless_a_call_is_much_worse():
    operators = {"aten::add": {8: [0.5, 0.2], 64: [0.5, 0.8]}, "aten::mul": {8: [1.5], 64: [1.2]}}
    found = way_ratios.by_name("pointwise", operators)
    assert found == {
        "pointwise": {8: 1.5, 64: pytest.approx(0.48 ** (1 / 3))},
        "aten::add": {8: pytest.approx(0.1**0.5), 64: pytest.approx(0.4**0.5)},
        "aten::mul": {8: 1.5, 64: pytest.approx(1.2)},
    }
    assert way_ratios.by_name("solver", {}) == {}


def test_real_times_are_measured(device):
    """The clock is the machine's; what takes the time is not, so the ratio is known."""

    def run() -> None:
        time.sleep({"device": 0.03, "host": 0.01}[ways.get_way(device)])

    on_device, on_host = way_ratios.compare_ways(
        run, lambda way: ways.set_way(way, device), lambda: None
    )
    assert 0.03 <= on_device < 0.3  # a busy machine adds to both
    assert 0.01 <= on_host < 0.1
    assert 1.5 < way_ratios.call_ratio(run, device, way_ratios.compare_ways) < 4


def test_real_calls_are_measured(device, monkeypatch):
    """Each side of the ratio is the time of calls that ran, by the way that it is named after."""
    monkeypatch.setattr(way_ratios, "BUDGET", 1e-3)
    add = ADD.prepare(device, 8)
    ran: dict[str, int] = {"device": 0, "host": 0}

    def run() -> None:
        ran[ways.get_way(device)] += 1
        add()

    module = torch.get_device_module(device)
    found = way_ratios.compare_ways(run, lambda way: ways.set_way(way, device), module.synchronize)
    assert ran["device"] > way_ratios.ROUNDS[0]
    assert ran["host"] > way_ratios.ROUNDS[0]
    # An addition of 8 numbers takes microseconds; a whole second would be that of something else.
    assert all(1e-7 < seconds < 1 for seconds in found)


def test_what_the_host_cannot_do_is_left_out(device):
    def compare(run, take, synchronize):
        with fallback.policy(shared="error"):
            return Clock()(run, take, synchronize)

    assert way_ratios.measure_operators([ADD], device, [8], compare, lambda _: None) == {}
