"""The files in which the times that `auto` goes by are kept, also while they are measured."""

from __future__ import annotations

import dataclasses
import io
import os
import stat
from pathlib import Path

import pytest
from rich.console import Console

from torch_outboard import _C
from torch_outboard.commands.main import main
from torch_outboard.commands.tune import LINE_SECONDS, Lines
from torch_outboard.tuning import tuning_file
from torch_outboard.tuning.tuning_file import Tuning
from torch_outboard.tuning.tuning_journal import Journal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path / "programs"))
    return tmp_path / "programs"


TIMES = {"pointwise": {8: (2.5, 1.0)}}


def tuning_of(device, times, **found) -> Tuning:
    """Of the device itself: the file of another is refused."""
    tuning = tuning_file.empty(device.index)
    tuning.times = times
    return dataclasses.replace(tuning, **found)


def test_files_come_back(device, folder, monkeypatch):
    assert tuning_file.load(device.index) is None
    tuning = tuning_of(
        device, {"pointwise": {8: (2.5, 1.0), 64: (5.0, 1.0)}}, costs={"host": 1.5}, beside="host"
    )
    file = tuning_file.save(device.index, tuning)
    assert file is not None
    assert file.parent == folder
    assert tuning_file.load(device.index) == tuning
    assert [path.name for path in folder.iterdir()] == [file.name]
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", "")
    assert tuning_file.save(device.index, tuning) is None
    assert tuning_file.load(device.index) is None


def test_a_failed_write_leaves_the_old_file(device, folder):
    tuning_file.save(device.index, tuning_of(device, TIMES))
    with pytest.raises(TypeError):
        tuning_file.save(device.index, tuning_of(device, {"pointwise": {8: object()}}))
    assert len(list(folder.iterdir())) == 1
    assert tuning_file.load(device.index).times == TIMES


def test_a_file_that_cannot_be_used_is_a_warning(device, folder):
    folder.mkdir()
    file = tuning_file.path(device.index)
    head = '{"format": 2, "device": "x", "driver_version": "y", '
    again = r"cannot be used .*torch_outboard tune.* writes it again"
    for content, message in (
        ("", again),
        ("[1]", again),
        ('{"format": 2}', again),
        (head + '"times": {"pointwise": "many"}}', again),
        (head + '"times": {"pointwise": {"8": [1.0]}}}', again),
        (head + '"times": {"pointwise": {}}}', again),
        (head + '"beside": "sometimes"}', again),
        ('{"format": 1, "shape": "unknown"}', r"another version of torch_outboard .*tune.* again"),
    ):
        file.write_text(content)
        with pytest.warns(UserWarning, match=message):
            assert tuning_file.load(device.index) is None
    tuning_file.save(device.index, dataclasses.replace(tuning_of(device, TIMES), device="chip"))
    with pytest.warns(UserWarning, match=r"cannot be used \(it is about chip, "):
        assert tuning_file.load(device.index) is None


def test_what_others_may_have_written_is_refused(device, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", f"{tmp_path}/of/mine//")
    before = os.umask(0)
    try:
        file = tuning_file.save(device.index, tuning_of(device, TIMES))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o620)
    with pytest.warns(UserWarning, match=r"can be written by others than its owner \(mode 0620\)"):
        assert tuning_file.load(device.index) is None
    file.parent.chmod(0o770)
    with pytest.raises(OSError, match="mode 0770"):
        tuning_file.save(device.index, tuning_of(device, {}))
    monkeypatch.setenv("OUTBOARD_CACHE_SHARED", "1")
    assert tuning_file.load(device.index).times == TIMES


def test_tune_says_that_there_is_nothing_to_tune(device, folder, capsys):
    """The driver `host` compiles nothing."""
    if _C.runs_code(device.index):
        pytest.skip("this driver compiles; tests/device_kernels/ways/test_way_tuning.py tunes it")
    assert main(["tune"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "runs no code, so it has one way only and nothing to tune" in printed
    assert not folder.exists()


# ---- What `tune` has measured when it is stopped

CONDITIONS = {"format": 1, "threads": 2}


def never() -> object:
    raise AssertionError("measured again")


def test_what_was_measured_is_taken_up_again(tmp_path):
    file = tmp_path / "folder" / "ways.journal"
    first = Journal(file, CONDITIONS)
    assert first.remember("add 8", lambda: [0.5, 1e-3]) == [0.5, 1e-3]
    assert first.remember("det 8", lambda: None) is None
    assert first.remember("add 8", never) == [0.5, 1e-3]
    # Nothing was closed or finished: the run was killed, in the middle of a line.
    first.remember("sum 8", lambda: 0.7)
    file.write_text(file.read_text()[:-6])
    second = Journal(file, CONDITIONS)
    assert second.remember("add 8", never) == [0.5, 1e-3]
    assert second.remember("det 8", never) is None
    assert second.remember("sum 8", lambda: 0.6) == 0.6
    assert Journal(file, CONDITIONS).found == {"add 8": [0.5, 1e-3], "det 8": None, "sum 8": 0.6}
    second.remove()
    assert not file.exists()
    without = Journal(None, CONDITIONS)
    assert without.remember("add 8", lambda: 0.5) == 0.5
    without.remove()


def test_other_conditions_begin_anew(tmp_path):
    file = tmp_path / "ways.journal"
    for content in ("", "rubbish\n", '{"format": 1, "threads": 8}\n["add 8", 1]\n'):
        file.write_text(content)
        assert Journal(file, CONDITIONS).found == {}
        Journal(file, CONDITIONS).remember("add 8", lambda: 0.5)
        assert Journal(file, CONDITIONS).found == {"add 8": 0.5}


def test_progress_is_lines_in_a_log():
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
