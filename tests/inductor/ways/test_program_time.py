"""Two ways of a graph, compared by what a program takes with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from torch_outboard.inductor.ways.program_time import ProgramTime


def run(times: ProgramTime, span: Callable[[str, int], float]) -> list[str]:
    """Calls until there are enough; `span` gives what a call and all until the next take."""
    now, ways = 0.0, list[str]()
    while (way := times.next_way(now)) is not None:
        ways.append(way)
        now += span(way, len(ways))
    return ways


@pytest.mark.parametrize(("usual", "other", "better"), [(2, 1, "b"), (1, 2, "a"), (1, 1, "a")])
def test_the_better_of_two(usual: float, other: float, better: str):
    times = ProgramTime("a", "b", gain=0.1)
    ways = run(times, lambda way, _: usual if way == "a" else other)
    assert ways.count("a") == ways.count("b")
    assert times.better() == better


@pytest.mark.parametrize(("gain", "better"), [(0.9, "b"), (1.1, "a")])
def test_as_much_is_gained_as_was_asked(gain: float, better: str):
    times = ProgramTime("a", "b", gain)
    run(times, lambda way, _: 2 if way == "a" else 1)
    assert times.better() == better


def test_the_first_call_after_another_way_is_not_timed():
    times, before = ProgramTime("a", "b", gain=0.1), [""]

    def span(way: str, call: int) -> float:
        changed, before[0] = before[0] != way, way
        return 1 + (5 if changed and way == "b" else 0) + (1 if way == "a" else 0)

    run(times, span)
    assert {*times.times["b"]} == {1}
    assert times.better() == "b"


def test_graphs_that_are_called_at_several_places_in_turn():
    """Where every other call is followed by something long."""
    for other, better in ((0.0, "b"), (0.2, "a")):
        times = ProgramTime("a", "b", gain=0.05)
        run(times, lambda way, n, other=other: n % 2 * 0.3 + (other if way == "b" else 0.1))
        assert times.better() == better


def test_programs_of_short_steps_are_timed_more_often():
    short = run(ProgramTime("a", "b", 0.0), lambda way, _: 1e-3)
    long = run(ProgramTime("a", "b", 0.0), lambda way, _: 1.0)
    assert len(short) > len(long)
    assert len(long) == 20  # five times each way, twice in a row
