"""What `tune` has measured when it is stopped."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from torch_outboard.tuning.tuning_journal import Journal

CONDITIONS = {"format": 1, "threads": 2}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "ways.journal"


def never() -> object:
    raise AssertionError("measured again")


def test_what_was_measured_is_taken_up_again(file):
    first = Journal(file, CONDITIONS)
    assert first.remember("add 8", lambda: [0.5, 1e-3]) == [0.5, 1e-3]
    assert first.remember("det 8", lambda: None) is None
    assert first.remember("add 8", never) == [0.5, 1e-3]
    # Nothing was closed or finished: the run was killed.
    second = Journal(file, CONDITIONS)
    assert second.remember("add 8", never) == [0.5, 1e-3]
    assert second.remember("det 8", never) is None
    assert second.remember("sum 8", lambda: True) is True
    assert Journal(file, CONDITIONS).found == {"add 8": [0.5, 1e-3], "det 8": None, "sum 8": True}


def test_a_line_that_is_not_whole_is_measured_again(file):
    journal = Journal(file, CONDITIONS)
    journal.remember("add 8", lambda: 0.5)
    journal.remember("sum 8", lambda: 0.7)
    file.write_text(file.read_text()[:-6])
    assert Journal(file, CONDITIONS).found == {"add 8": 0.5}
    again = Journal(file, CONDITIONS)
    assert again.remember("sum 8", lambda: 0.6) == 0.6
    assert Journal(file, CONDITIONS).found == {"add 8": 0.5, "sum 8": 0.6}


@pytest.mark.parametrize(
    "content", ["", "rubbish\n", '{"format": 1, "threads": 8}\n["add 8", 1]\n']
)
def test_other_conditions_begin_anew(file, content):
    file.parent.mkdir()
    file.write_text(content)
    assert Journal(file, CONDITIONS).found == {}
    Journal(file, CONDITIONS).remember("add 8", lambda: 0.5)
    assert Journal(file, CONDITIONS).found == {"add 8": 0.5}


def test_results_end_the_journal(file):
    journal = Journal(file, CONDITIONS)
    journal.remember("add 8", lambda: 0.5)
    journal.remove()
    assert not file.exists()


def test_without_a_folder_nothing_is_kept():
    journal = Journal(None, CONDITIONS)
    assert journal.remember("add 8", lambda: 0.5) == 0.5
    journal.remove()


def test_progress_is_lines_in_a_log():
    from torch_outboard.commands.tune import LINE_SECONDS, Lines

    now = 100.0
    log = io.StringIO()
    lines = Lines("ocl:0", 8, Console(file=log), clock=lambda: now)
    for step in range(8):
        lines.say(f"step {step}")
        now += LINE_SECONDS / 2
    assert log.getvalue().splitlines() == [
        "tuning ocl:0:   0% after 0 s, step 0",
        "tuning ocl:0:  25% after 10 s, step 2",
        "tuning ocl:0:  50% after 20 s, step 4",
        "tuning ocl:0:  75% after 30 s, step 6",
    ]
