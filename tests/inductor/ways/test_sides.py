"""Graphs of a program that change sides together, by what the program takes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from torch_outboard.inductor.ways.program_time import ProgramTime
from torch_outboard.inductor.ways.sides import DEVICE, HOST, MIXED, SIDES, Group, Groups

# ---- Two ways of a graph


class Calls:
    """Calls of a graph; `span` gives what a call and all until the next take, in seconds."""

    def __init__(self, span: Callable[[str], float]) -> None:
        self.span = span
        self.now = 1.0

    def when_done(self) -> float:
        return self.now

    def time(self, times: ProgramTime) -> list[str]:
        """Calls until there were enough."""
        ways = list[str]()
        while (way := times.next_way(self)) is not None:
            ways.append(way)
            self.now += self.span(way)
        return ways


@pytest.mark.parametrize(
    ("asked", "seconds", "best"),
    [
        ({"gain": 0.1}, {"a": 3, "b": 2, "c": 1}, "c"),
        ({"gain": 0.1}, {"a": 1, "b": 1}, "a"),
        ({"gain": 1.1}, {"a": 2, "b": 1}, "a"),
        ({"share": 0.4}, {"a": 2, "b": 1}, "b"),
        ({"share": 0.6}, {"a": 2, "b": 1}, "a"),
    ],
)
def test_the_best_way(asked: dict[str, float], seconds: dict[str, float], best: str):
    """The first way stays unless another one gains what was asked: seconds, or a share."""
    times = ProgramTime(*seconds, **asked)
    ways = Calls(seconds.__getitem__).time(times)
    assert len({ways.count(way) for way in seconds}) == 1
    assert times.best() == best


def test_a_row_in_which_the_machine_was_busy_does_not_decide():
    times, rows = ProgramTime("a", "b"), list[str]()

    def span(way: str) -> float:
        if not rows or rows[-1] != way:
            rows.append(way)
        busy = rows.count("b") == 2 and way == "b"
        return (2e-3 if way == "a" else 1e-3) * (9 if busy else 1)

    Calls(span).time(times)
    assert times.best() == "b"


# ---- Sides of all graphs

SECONDS = dict.fromkeys(SIDES, 1.0)


class Graph:
    """Stands for a graph, which groups know by its identity alone."""


class Program:
    """Calls graphs of a group in turn; the sum of their times is the time of a step."""

    def __init__(self, graphs: list[Graph], group: Group, seconds: dict[str, float]) -> None:
        self.graphs, self.group = graphs, group
        self.seconds = {MIXED: 3.0, **seconds}
        self.now, self.asked = 0.0, 0
        self.steps: list[set[str]] = []

    def when_done(self) -> float:
        self.asked += 1
        return self.now

    def step(self) -> None:
        seen = set()
        for graph in self.graphs:
            self.group.begin_call(graph, self)
            self.now += self.seconds[self.group.side]
            seen.add(self.group.side)
        self.steps.append(seen)

    def decide(self) -> None:
        while not self.group.decided:
            self.step()
            assert len(self.steps) < 1000


@pytest.mark.parametrize("better", SIDES)
def test_all_go_to_the_better_side(better: str):
    groups, graphs = Groups(), [Graph(), Graph()]
    (group,) = {groups.join(graph, 5, SECONDS) for graph in graphs}
    program = Program(graphs, group, SECONDS | {better: 0.9})
    program.decide()
    assert group.side == better
    # Each step was on one side, all were tried, and time was asked for once a step at most.
    assert {frozenset(seen) for seen in program.steps} == {frozenset({side}) for side in SIDES}
    assert program.asked < len(program.steps)


def test_a_side_that_is_much_slower_is_not_tried():
    groups, graph = Groups(), Graph()
    group = groups.join(graph, 5, {HOST: 1.0, MIXED: 1.2, DEVICE: 2.6})
    program = Program([graph], group, {HOST: 1.0, DEVICE: 0.1, MIXED: 1.0})
    program.decide()
    assert {side for seen in program.steps for side in seen} == {HOST, MIXED}


def test_graphs_that_go_through_their_ways_are_waited_for():
    """But not for ever, and not for those that are gone."""
    groups, graph, other, gone, forgotten = Groups(), *(Graph() for _ in range(4))
    for each in (other, gone, forgotten):
        groups.begin(each)
    program = Program([graph], groups.join(graph, 5, SECONDS), {HOST: 1.0, DEVICE: 2.0})
    del gone
    for _ in range(50):  # ten times as often as it was called before
        program.step()
    assert program.asked == 0
    groups.join(other, 5, SECONDS)
    program.decide()
    assert program.group.side == HOST


@pytest.mark.parametrize("deleted", [False, True])
def test_another_leads_when_the_lead_is_not_called_any_more(deleted: bool):
    groups, first, other = Groups(), Graph(), Graph()
    group = groups.join(first, 5, SECONDS)
    program = Program([first, other], group, {HOST: 1.0, DEVICE: 2.0})
    for _ in range(4):
        program.step()
    program.graphs = [other]
    if deleted:
        del first
    program.decide()
    assert group.side == HOST


def test_other_threads_do_not_wait_for_the_clock():
    groups, lead, other = Groups(), Graph(), Graph()
    (group,) = {groups.join(graph, 5, SECONDS) for graph in (lead, other)}
    done: list[bool] = []

    class Clock:
        def when_done(self) -> float:
            thread = threading.Thread(target=group.begin_call, args=(other, self), daemon=True)
            thread.start()
            thread.join(10)
            done.append(not thread.is_alive())
            return 1.0

    group.begin_call(lead, Clock())
    assert done == [True]
