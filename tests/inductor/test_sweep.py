"""The sweep of compiled entries counts what is known of the same sources alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import ClassVar

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


def test_answers_about_the_same_sources_and_samples_are_taken_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def run(*options: str) -> tuple[int, list[str]]:
        """The exit status, and which entries were asked."""
        Answering.asked.clear()
        return sweep.main(["--results", str(tmp_path), *options]), sorted(Answering.asked)

    monkeypatch.setattr(sweep, "worker", Answering)
    monkeypatch.setattr(sweep, "fingerprint", lambda: "first")
    monkeypatch.setattr(Answering, "wrong", {"add"})
    assert run() == (1, ["abs", "add", "mul"])
    Answering.wrong.clear()
    assert run("--resume") == (0, ["add"])
    assert run() == (0, ["abs", "add", "mul"])
    assert run("--resume", "--samples", "1") == (0, ["abs", "add", "mul"])
    monkeypatch.setattr(sweep, "fingerprint", lambda: "second")
    assert run("--entry", "mul", "--samples", "1") == (0, ["mul"])
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 entries are right"
    (file,) = tmp_path.iterdir()
    assert sorted(known(file)) == ["abs", "add", "mul"]
    assert run("--resume", "--samples", "1") == (0, ["abs", "add"])
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 3 entries are right"
