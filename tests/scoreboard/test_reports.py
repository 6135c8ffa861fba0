"""Tables, the page, and what changed since the run before."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.changed import ROOT
from torch_outboard.commands import scoreboard
from torch_outboard.scoreboard.answers import Answer, failure
from torch_outboard.scoreboard.reports import page, relay, results, tables


def run_of(started: str, **statuses: str) -> dict[str, Any]:
    """Results of entries with one check each."""
    answers = []
    for entry, status in statuses.items():
        answer = Answer(entry, status, "operators", "float32", samples=1, checks=["forward"])
        answer.seconds = 0.4
        if status in ("fail", "crash", "hang"):
            answer.failures = [failure("forward", 0, f"</script> of {entry}", status)]
        if status == "excluded":
            row = {"check": "forward", "reason": "rounds | cuts", "owner": "kit"}
            answer.excluded = [row]
        answers.append(answer)
    about = results.about("mychip", "mychip", "device", "")
    return results.of_answers(answers, about, "sources", started)


def test_scores_and_owners() -> None:
    found = run_of("1", add="pass", sub="fail", mul="crash", div="hang", exp="excluded")
    lines = tables.in_terminal(found, None).splitlines()
    assert lines[1].split() == ["operators", "forward", "5", "1", "1", "1", "1", "1", "20.00"]
    assert lines[-2:] == ["seconds of processes: operators 2", "excluded: 1 by kit"]
    assert tables.percentage(0.99999) == "99.99"
    markdown = tables.as_markdown(found, None)
    assert "| operators | sub | float32 | forward | fail | </script> of sub |" in markdown
    assert "| kit: rounds \\| cuts | forward | exp float32 |" in markdown


def test_changes_since_the_run_before(tmp_path: Path) -> None:
    before = run_of("1", add="pass", sub="fail", mul="pass", gone="pass", exp="excluded")
    now = run_of("2", add="fail", sub="pass", mul="pass", new="pass", exp="crash")
    assert results.write(tmp_path, before) is None
    assert results.write(tmp_path, now) == before
    # The same run, gone on with, does not replace the one before it.
    assert results.write(tmp_path, now) == before
    changed = results.changes(before, now)
    assert [(key[2], was, is_now) for key, was, is_now in changed.worse] == [
        ("add", "pass", "fail"),
        ("exp", "excluded", "crash"),
    ]
    assert [key[2] for key, _, _ in changed.better] == ["sub"]
    assert ([key[2] for key in changed.new], [key[2] for key in changed.gone]) == (
        ["new"],
        ["gone"],
    )
    assert "worse: operators add float32 forward: pass -> fail" in tables.in_terminal(now, changed)


def test_a_file_that_holds_no_results(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for text in ("{", "[]", '{"format": 0}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            results.read(path)


def test_the_page_holds_the_matrix_and_needs_nothing_from_elsewhere() -> None:
    before = run_of("1", add="pass", sub="pass", exp="excluded")
    now = run_of("2", add="pass", sub="fail", exp="excluded")
    text = page.page(now, before)
    assert text.count("</script>") == 1
    assert not re.search(r"(src|href)=|https?://|@import|url\(", text)
    data = page.data(now, before)
    assert data["entries"] == ["add", "exp", "sub"]
    assert data["columns"] == [("operators", "float32", "forward")]
    assert data["grid"] == ["p", "x", "f"]
    assert data["reasons"] == {"1,0": ["kit: rounds | cuts"], "2,0": ["</script> of sub"]}
    assert data["changed"] == {"2,0": "p"}
    (embedded,) = re.findall(r"const data = (.*);\n", text)
    assert json.loads(embedded)["grid"] == data["grid"]


def test_what_the_relay_takes(tmp_path: Path) -> None:
    found = run_of("1", add="pass", sub="fail", mul="hang", exp="excluded")
    relay.write(tmp_path, found)
    counts, failures = ((tmp_path / n).read_text() for n in (relay.RESULTS, relay.FAILURES))
    assert json.loads(counts) == {"passed": 1, "failed": 2, "skipped": 1}
    first, second = json.loads(failures)
    assert first["name"] == "operators sub float32 forward"
    assert first["message"] == "</script> of sub"
    assert second["classname"] == "operators"
    # Outputs of a workflow are lines.
    assert counts.count("\n") == failures.count("\n") == 1


@pytest.mark.parametrize("name", ["publish.yml", "relay.yml"])
def test_workflows_call_the_command_as_it_is(name: str) -> None:
    text = (ROOT / "examples" / "scoreboard_workflows" / name).read_text()
    parser = argparse.ArgumentParser()
    scoreboard.add_arguments(parser)
    lines = text.replace("\\\n", " ").splitlines()
    calls = [line.partition(" scoreboard ")[2] for line in lines if " scoreboard --" in line]
    assert calls
    for call in calls:
        words = re.sub(r"\$\{\{.*?\}\}", "value", call.partition("||")[0]).split()
        assert parser.parse_args(words).driver == "mychip"
    for path in re.findall(r"relay-[a-z]+\.json", text):
        assert path in (relay.RESULTS, relay.FAILURES)
