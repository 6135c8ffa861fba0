"""The sweep of compiled entries counts what is known of the same sources alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.inductor import sweep
from tests.inductor.worker import Worker, known


class Answering(Worker):
    """Its answers are of its own, and it notes what it was asked."""

    asked: ClassVar[list[str]] = []
    wrong: ClassVar[set[str]] = set()

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__([], {}, 0)

    def start(self) -> str:
        return json.dumps(["abs", "add", "mul"])

    def ask(self, line: str, timeout: float) -> str:
        self.asked.append(line)
        status = "wrong" if line in self.wrong else "right"
        return json.dumps({"entry": line, "status": status, "samples": 1, "reasons": []})


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Its "sources" are what the tree is taken for."""
    tree = {"sources": "first"}
    monkeypatch.setattr(sweep, "worker", Answering)
    monkeypatch.setattr(sweep, "fingerprint", lambda: tree["sources"])
    monkeypatch.setattr(Answering, "asked", [])
    monkeypatch.setattr(Answering, "wrong", set())
    return tree


def run(folder: Path, *options: str) -> tuple[int, list[str]]:
    """The exit status, and which entries were asked."""
    Answering.asked.clear()
    code = sweep.main(["--results", str(folder), *options])
    return code, sorted(Answering.asked)


def test_answers_of_the_same_sources_are_taken_up(tree: dict[str, Any], tmp_path: Path):
    Answering.wrong = {"add"}
    assert run(tmp_path) == (1, ["abs", "add", "mul"])
    Answering.wrong = set()
    assert run(tmp_path, "--resume") == (0, ["add"])
    assert run(tmp_path, "--resume") == (0, [])
    assert run(tmp_path) == (0, ["abs", "add", "mul"])


@pytest.mark.parametrize("options", [(), ("--samples", "1")])
def test_answers_about_something_else_are_not(
    tree: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
):
    run(tmp_path)
    if not options:
        tree["sources"] = "second"
    assert run(tmp_path, "--entry", "mul", *options) == (0, ["mul"])
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 entries are right"
    # What is known of the others stays as it was.
    (file,) = tmp_path.iterdir()
    assert sorted(known(file)) == ["abs", "add", "mul"]
    assert run(tmp_path, "--resume", *options) == (0, ["abs", "add"])
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 3 entries are right"


def test_an_unknown_entry_is_refused(
    tree: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        run(tmp_path, "--entry", "mull", "--entry", "abs")
    assert "no entry takes float32 and is named mull" in capsys.readouterr().err
    assert not Answering.asked
