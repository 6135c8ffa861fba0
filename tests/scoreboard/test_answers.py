"""Answers, the journal, and exclusions that hide failures or nothing."""

from pathlib import Path

import pytest

from torch_outboard.scoreboard.answers import Answer, Journal, failure, is_bad, known_about
from torch_outboard.scoreboard.exclusions import Exclusion, settle


def test_outcomes_of_checks() -> None:
    answer = Answer(
        "add", "crash", checks=["forward", "out", "backward"],
        failures=[failure("out", 1, "ends", "crash"), failure("out", 2, "values: 1")],
        excluded=[{"check": "backward", "reason": "cancels", "owner": "kit"}],
    )  # fmt: skip
    assert answer.cells() == {"forward": "pass", "out": "crash", "backward": "excluded"}
    assert answer.reasons("backward") == ["kit: cancels"]
    assert answer.reasons("out") == ["ends", "values: 1"]


def test_answers_of_other_sources_are_not_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, "first")
    journal.add(Answer("add", "pass", samples=3, ran=[("aten::add.Tensor", "float32", "device")]))
    assert Journal(path, "first").answers == journal.answers
    assert known_about(path, "first") == journal.answers
    assert known_about(path, "second") == []
    before = path.read_text()
    alone = Journal(path, "second", lambda a: a.entry == "mul", few=True)
    assert not alone.answers
    assert alone.of_others
    alone.add(Answer("mul", "pass", samples=2))
    assert path.read_text() == before
    assert not Journal(path, "second").answers


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, "same")
    for entry, status in (("add", "pass"), ("mul", "fail"), ("sub", "pass"), ("sub", "hang")):
        journal.add(Answer(entry, status, "operators", "float32"))
    with path.open("a") as file:
        file.write('{"entry": "cut')
    again = Journal(path, "same")
    assert [answer.entry for answer in again.answers] == ["add"]
    assert again.started == journal.started
    one = Journal(path, "same", lambda a: a.entry == "add", few=True)
    assert not one.answers


def test_exclusions_hide_what_they_name_and_are_needless_otherwise() -> None:
    rows = [failure("forward", 0, "values: a"), failure("out", 3, "RuntimeError: b")]
    hides = Exclusion("add", "forward", "rounds", owner="driver")
    other = Exclusion("add", "out", "gaps", "values")
    unsafe = Exclusion("add", "backward", "ends", "", unsafe=True)
    failures, excluded = settle(
        rows, (hides, other, unsafe), ("forward", "out"), ("backward",), lambda e: True
    )
    assert [f["reason"] for f in failures] == ["RuntimeError: b", "exclusion is needless: gaps"]
    assert [(e["check"], e["owner"]) for e in excluded] == [
        ("forward", "driver"),
        ("backward", "PyTorch"),
    ]
    # Of a check that did not run, or by the kit on another driver, nothing is asked.
    assert settle([], (other,), ("forward",), (), lambda e: True) == ([], [])
    assert settle([], (other,), ("out",), (), lambda e: False) == ([], [])


@pytest.mark.parametrize("status", ["fail", "crash", "hang"])
def test_what_is_bad(status: str) -> None:
    assert is_bad(Answer("add", status))
    assert not is_bad(Answer("add", "excluded"))


def test_exclusions_of_the_kit_name_what_is_there() -> None:
    """One of an entry or check that is not there would stay forever."""
    from torch_outboard.scoreboard import exclusion_table
    from torch_outboard.scoreboard.suites import SUITES
    from torch_outboard.scoreboard.suites.arguments import exclusions
    from torch_outboard.scoreboard.suites.arguments.calls import reached
    from torch_outboard.scoreboard.suites.database import operators

    assert {e.entry for e in exclusion_table.EXCLUSIONS} <= set(operators())
    assert {e.entry for e in exclusions.EXCLUSIONS} <= set(reached())
    checks = {check for suite in SUITES.values() for check in suite.checks}
    assert {e.check for e in (*exclusion_table.EXCLUSIONS, *exclusions.EXCLUSIONS)} <= checks
