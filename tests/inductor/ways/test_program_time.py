"""Ways of a graph, compared by what a program takes with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from torch_outboard.inductor.ways.program_time import ProgramTime


def run(times: ProgramTime, span: Callable[[str, int], float]) -> list[str]:
    """Calls until there are enough; `span` gives what a call and all until the next take."""
    now, ways = 1.0, list[str]()
    while (way := times.next_way(now)) is not None:
        ways.append(way)
        now += span(way, len(ways))
    return ways


@pytest.mark.parametrize("seconds", [{"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 2, "c": 1}])
def test_the_best(seconds: dict[str, float]):
    times = ProgramTime(*seconds, gain=0.1)
    ways = run(times, lambda way, _: seconds[way])
    assert len({ways.count(way) for way in seconds}) == 1
    assert times.best() == min(seconds, key=lambda way: seconds[way])


@pytest.mark.parametrize(("gain", "best"), [(0.9, "b"), (1.1, "a")])
def test_as_much_is_gained_as_was_asked(gain: float, best: str):
    times = ProgramTime("a", "b", gain=gain)
    run(times, lambda way, _: 2 if way == "a" else 1)
    assert times.best() == best


def test_without_a_difference_the_first_stays():
    times = ProgramTime("a", "b", gain=0.1)
    run(times, lambda way, _: 1)
    assert times.best() == "a"


@pytest.mark.parametrize("scale", [1.0, 0.001])
def test_the_first_calls_after_another_way_are_not_timed(scale: float):
    times, before, since = ProgramTime("a", "b", gain=0.0), "", 0.0

    def span(way: str, call: int) -> float:
        nonlocal before, since
        since = 0.0 if way != before else since
        before = way
        seconds = scale * (2 if way == "a" else 1) + (5 * scale if since < 0.04 else 0)
        since += seconds
        return seconds

    run(times, span)
    assert [pytest.approx(2 * scale)] * len(times.times["a"]) == times.times["a"]
    assert [pytest.approx(scale)] * len(times.times["b"]) == times.times["b"]


def test_graphs_that_are_called_at_several_places_in_turn():
    """Where every other call is followed by something long."""
    for other, best in ((0.0, "b"), (0.002, "a")):
        times = ProgramTime("a", "b", gain=0.0005)
        run(times, lambda way, n, other=other: n % 2 * 0.003 + (other if way == "b" else 0.001))
        assert times.best() == best


def test_programs_of_short_steps_are_timed_more_often():
    short = run(ProgramTime("a", "b", gain=0.0), lambda way, _: 1e-3)
    long = run(ProgramTime("a", "b", gain=0.0), lambda way, _: 1.0)
    assert len(short) > 500
    assert len(long) == 18  # three times three calls by each way
