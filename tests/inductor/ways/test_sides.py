"""Graphs of a program that change sides together."""

from __future__ import annotations

import threading

import pytest

from torch_outboard.inductor.ways.sides import DEVICE, HOST, MIXED, SIDES, Group, Groups

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
    group = groups.join(graph, 5, {HOST: 9.0, MIXED: 9.0, DEVICE: 1.0})
    Program([graph], group, SECONDS).step()
    assert (group.side, group.decided) == (DEVICE, True)


def test_who_comes_later_has_a_group_of_its_own():
    groups, graph = Groups(), Graph()
    group = groups.join(graph, 5, SECONDS)
    program = Program([graph], group, {HOST: 1.0, DEVICE: 2.0})
    program.decide()
    other = groups.join(Graph(), 5, SECONDS)
    assert other is not group
    assert (group.side, other.side, other.decided) == (HOST, MIXED, False)


def test_graphs_that_go_through_their_ways_are_waited_for():
    groups, graph, other = Groups(), Graph(), Graph()
    groups.begin(other)
    program = Program([graph], groups.join(graph, 5, SECONDS), {HOST: 1.0, DEVICE: 2.0})
    for _ in range(50):  # ten times as often as it was called before
        program.step()
    assert program.asked == 0
    groups.join(other, 5, SECONDS)
    program.step()
    assert program.asked == 1


def test_but_not_for_ever():
    groups, graph, gone, forgotten = Groups(), Graph(), Graph(), Graph()
    groups.begin(gone)
    groups.begin(forgotten)
    program = Program([graph], groups.join(graph, 5, SECONDS), {HOST: 1.0, DEVICE: 2.0})
    del gone
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


def test_graphs_change_sides_one_after_the_other():
    groups, first, other = Groups(), Graph(), Graph()
    assert [groups.begins_alone(graph) for graph in (first, other, first, other)] == [
        True, False, True, False,
    ]  # fmt: skip
    groups.end_alone()
    assert [groups.begins_alone(graph) for graph in (other, first)] == [True, False]
    del other  # and the lead is not missed
    assert groups.begins_alone(first)
