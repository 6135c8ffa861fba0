"""`tools/gpu_run.py`: steps in order, each with its limit, remembered by commit."""

import json
from pathlib import Path

import pytest

from tools import gpu_run
from tools.gpu_run import Step

STEPS = (
    Step("works", "{python} -c 'print(6 * 7)'", 60, "true"),
    Step("fails", "false", 60),
    Step("lasts", "sleep 60", 1),
)


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_run, "STEPS", STEPS)
    monkeypatch.setattr(gpu_run, "RESULTS", tmp_path / "kept.json")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["gpu_run", *map(str, arguments)])
    return gpu_run.main()


def test_steps_leave_their_results_by_commit(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, "--output", tmp_path, "--commit", "abc") == 1
    found = json.loads((tmp_path / "steps.json").read_text())
    assert {name: outcome["status"] for name, outcome in found.items()} == {
        "works": 0, "fails": 1, "lasts": -1
    }  # fmt: skip
    assert found["lasts"]["seconds"] < 30
    assert {outcome["commit"] for outcome in found.values()} == {"abc"}
    assert (tmp_path / "works.log").read_text() == "42\n"
    run(monkeypatch, "--merge", tmp_path / "steps.json")
    capsys.readouterr()
    run(monkeypatch, "--list")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines[:2]] == [
        ["works", "passed at abc"],
        ["fails", "failed: 1 at abc"],
    ]
    # Steps that succeeded at a commit are left out.
    assert run(monkeypatch, "works", "--output", tmp_path, "--commit", "abc") == 0
    assert capsys.readouterr().out == ""
    run(monkeypatch, "works", "--output", tmp_path, "--commit", "def")
    assert "works: passed" in capsys.readouterr().out


def test_what_does_not_begin(monkeypatch, tmp_path, capsys):
    run(monkeypatch, "--output", tmp_path, "--seconds", 5)
    assert capsys.readouterr().out.count("no time left") == len(STEPS)
    # Without a GPU some steps run.
    assert run(monkeypatch, "--emulated", "--output", tmp_path) == 0
    assert capsys.readouterr().out.startswith("works: passed")
    assert not (tmp_path / "fails.log").exists()
