"""The command: what becomes of operators that are wrong, crash or hang, and of its options."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.changed import ROOT
from tests.support import SLOWNESS
from torch_outboard.commands import scoreboard
from torch_outboard.scoreboard.exclusions import read_file
from torch_outboard.scoreboard.run import Plan, UnknownName, pairs
from torch_outboard.scoreboard.suites import SUITES
from torch_outboard.scoreboard.worker import Settings

FAULTS = Path(__file__).with_name("faults.py")


def board(*options: str) -> tuple[int, str]:
    """Exit status and output of the command."""
    command = [sys.executable, "-m", "torch_outboard", "scoreboard", *options]
    limit = 280 * SLOWNESS
    result = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    return result.returncode, result.stdout + result.stderr


@pytest.mark.by_turns(4)
def test_faults_are_told_apart_and_a_needless_exclusion_is_one(tmp_path: Path) -> None:
    exclusions = tmp_path / "exclusions.toml"
    text = '[[exclusion]]\nentry = "{}"\ncheck = "forward"\nowner = "driver"\nreason = "made up"\n'
    exclusions.write_text(text.format("atanh") + text.format("tan"))
    entries = ("sinh", "cosh", "asinh", "acosh", "atanh", "tan")
    options = [word for entry in entries for word in ("--entry", entry)]
    options += ["--suite", "operators", "--check", "forward", "--dtype", "float32"]
    options += ["--timeout", f"{25 * SLOWNESS}", "--jobs", "2", "--exclusions", str(exclusions)]
    folder = tmp_path / "results"
    options += ["--library", str(FAULTS), "--output", str(folder)]
    status, output = board(*options)
    results = json.loads((folder / "results.json").read_text())
    found = {row["entry"]: row for row in results["answers"]}
    assert {entry: row["cells"] for entry, row in found.items()} == {
        "sinh": {"forward": "fail"},
        "cosh": {"forward": "crash"},
        "asinh": {"forward": "hang"},
        "acosh": {"forward": "fail"},
        "atanh": {"forward": "excluded"},
        "tan": {"forward": "fail"},
    }, output
    assert status == 1
    assert found["atanh"]["owners"] == {"forward": "driver"}
    for entry, reason in (
        ("sinh", "values: "), ("cosh", "SIGABRT"), ("asinh", "no answer within"),
        ("acosh", "not here"), ("tan", "exclusion is needless: made up"),
    ):  # fmt: skip
        assert reason in found[entry]["reasons"]["forward"][0]
        assert reason in output
    assert "SIGABRT" in (folder / "results.md").read_text()
    assert "SIGABRT" in (folder / "index.html").read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtypes": ("float3",)}, "no suite has the dtype float3"),
        ({"suites": ("layout",)}, "no suite is named layout"),
        ({"settings": Settings(checks=("out",))}, "no check is named out"),
    ],
)
def test_names_that_are_not_there(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    plan = Plan(Settings(), tmp_path, ("layouts",))
    with pytest.raises(UnknownName, match=words):
        pairs(replace(plan, **changes))


@pytest.mark.by_turns(4)
def test_an_entry_that_is_not_there(tmp_path: Path) -> None:
    status, output = board("--output", str(tmp_path / "results"), "--entry", "no_such")
    assert (status, "no suite has an entry no_such" in output) == (2, True), output


def test_a_package_that_pytorch_needs_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch_outboard.commands import main

    monkeypatch.setattr(scoreboard, "NEEDED", ("numpy", "no_such_package"))
    assert main(["scoreboard"]) == 2
    printed = capsys.readouterr().err
    assert "no_such_package is not installed" in printed
    assert "pip install torch-outboard[scoreboard]" in printed


def test_the_file_of_the_documents(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "scoreboard.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "exclusions.toml"
    path.write_text(block)
    (exclusion,) = read_file(path)
    assert exclusion.applies("nn.functional.gelu", "float16", "")
    assert exclusion.hides("forward", "values: Greatest absolute difference: 0.001 at index")
    assert not exclusion.hides("forward", "values: Greatest absolute difference: 0.003 at index")


def test_suites_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    from torch_outboard.commands import main

    assert main(["scoreboard", "--list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for suite in SUITES.values() for name in suite.checks)
    checks = [check for suite in SUITES.values() for check in suite.checks]
    assert len(set(checks)) == len(checks)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[exclusion", "cannot be read"),
        ('[[exclusion]]\nentry = "add"', "lacks check, reason, owner"),
        (
            '[[exclusion]]\nentry = "add"\ncheck = "out"\nreason = "a"\nowner = "me"',
            "the owner is one of PyTorch, kit, driver, not 'me'",
        ),
        (
            '[[exclusion]]\nentry = "add"\ncheck = "out"\nreason = "a"\nowner = "kit"\nwhy = 1',
            "has why; there are",
        ),
        (
            '[[exclusion]]\nentry = "add"\ncheck = "out"\nreason = "a"\nowner = "kit"\n'
            'failure = "("',
            "exclusion 1 of",
        ),
    ],
)
def test_wrong_files_of_exclusions(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "exclusions.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_file(path)
