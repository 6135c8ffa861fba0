"""Ways of a graph, compared by what a program takes with them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from torch_outboard.inductor.ways.program_time import ProgramTime


class Program:
    """Calls a graph; `span` gives what a call and all until the next take, in seconds."""

    def __init__(self, span: Callable[[str, int], float]) -> None:
        self.span = span
        self.now = 1.0
        self.waits = 0

    def when_done(self) -> float:
        self.waits += 1
        return self.now

    def run(self, times: ProgramTime) -> list[str]:
        """Calls until there were enough."""
        ways = list[str]()
        while (way := times.next_way(self)) is not None:
            ways.append(way)
            self.now += self.span(way, len(ways))
        return ways


def run(times: ProgramTime, span: Callable[[str, int], float]) -> list[str]:
    return Program(span).run(times)


@pytest.mark.parametrize(
    ("asked", "seconds", "best"),
    [
        ({"gain": 0.1}, {"a": 2, "b": 1}, "b"),
        ({"gain": 0.1}, {"a": 1, "b": 2}, "a"),
        ({"gain": 0.1}, {"a": 3, "b": 2, "c": 1}, "c"),
        ({"gain": 0.1}, {"a": 1, "b": 1}, "a"),
        ({"gain": 0.9}, {"a": 2, "b": 1}, "b"),
        ({"gain": 1.1}, {"a": 2, "b": 1}, "a"),
        ({"share": 0.4}, {"a": 2, "b": 1}, "b"),
        ({"share": 0.6}, {"a": 2, "b": 1}, "a"),
    ],
)
def test_the_best(asked: dict[str, float], seconds: dict[str, float], best: str):
    """The first way stays unless another one gains what was asked: seconds, or a share."""
    times = ProgramTime(*seconds, **asked)
    ways = run(times, lambda way, _: seconds[way])
    assert len({ways.count(way) for way in seconds}) == 1
    assert times.best() == best


@pytest.mark.parametrize("scale", [1.0, 0.001])
def test_the_first_calls_after_another_way_are_not_timed(scale: float):
    times, before, since = ProgramTime("a", "b"), "", 0.0

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
    short = run(ProgramTime("a", "b"), lambda way, _: 1e-3)
    long = run(ProgramTime("a", "b"), lambda way, _: 1.0)
    assert len(short) > 500
    assert len(long) == 18  # three times three calls by each way


def test_the_program_seldom_waits():
    """It gives the device more while that works."""
    program = Program(lambda way, _: 1e-3)
    ways = program.run(ProgramTime("a", "b"))
    assert program.waits < len(ways) / 10


@pytest.mark.parametrize("row", range(5))
def test_a_row_in_which_the_machine_was_busy_does_not_decide(row: int):
    times, rows = ProgramTime("a", "b"), list[str]()

    def span(way: str, _: int) -> float:
        if not rows or rows[-1] != way:
            rows.append(way)
        busy = rows.count("b") == row + 1 and way == "b"
        return (2e-3 if way == "a" else 1e-3) * (9 if busy else 1)

    run(times, span)
    assert times.best() == "b"


@pytest.mark.parametrize("better", ["a", "b"])
def test_calls_that_differ_in_their_work(better: str):
    """One way's calls may be the larger ones by chance."""
    chance, times = random.Random(2), ProgramTime("a", "b", gain=0.1)
    now = 1.0

    class Here:
        def when_done(self) -> float:
            return now

    while (way := times.next_way(Here(), work := chance.uniform(0.2, 1.8))) is not None:
        now += work * (1.0 if way == better else 1.2)
    assert times.best() == better
    assert times.times[better] == pytest.approx([1.0] * len(times.times[better]))
