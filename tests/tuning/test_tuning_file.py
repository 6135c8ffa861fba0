"""The files in which the times that `auto` goes by are kept."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path

import pytest

from tests.support import run_python
from torch_outboard import _C
from torch_outboard.tuning import tuning_file
from torch_outboard.tuning.tuning_file import Tuning


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


def test_files_come_back(device, folder):
    assert tuning_file.load(device.index) is None
    tuning = tuning_of(
        device, {"pointwise": {8: (2.5, 1.0), 64: (5.0, 1.0)}}, costs={"host": 1.5}, beside="host"
    )
    file = tuning_file.save(device.index, tuning)
    assert file is not None
    assert file.parent == folder
    assert tuning_file.load(device.index) == tuning
    assert [path.name for path in folder.iterdir()] == [file.name]


def test_nothing_is_kept_without_a_folder(device, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", "")
    assert tuning_file.save(device.index, Tuning("chip", "1.2")) is None
    assert tuning_file.load(device.index) is None


def test_a_failed_write_leaves_the_old_file(device, folder):
    tuning_file.save(device.index, tuning_of(device, TIMES))
    with pytest.raises(TypeError):
        tuning_file.save(device.index, tuning_of(device, {"pointwise": {8: object()}}))
    assert len(list(folder.iterdir())) == 1
    assert tuning_file.load(device.index).times == TIMES


@pytest.mark.parametrize(
    "content",
    ["", "[1]", '{"format": 2}', '{"format": 2, "device": "x", "driver_version": "y", '
     '"times": {"pointwise": "many"}}', '{"format": 2, "device": "x", "driver_version": "y", '
     '"times": {"pointwise": {"8": [1.0]}}}', '{"format": 2, "device": "x", '
     '"driver_version": "y", "times": {"pointwise": {}}}', '{"format": 2, "device": "x", '
     '"driver_version": "y", "beside": "sometimes"}'],
)  # fmt: skip
def test_a_broken_file_is_a_warning(device, folder, content):
    folder.mkdir()
    file = tuning_file.path(device.index)
    file.write_text(content)
    with pytest.warns(UserWarning, match=r"cannot be used .*torch_outboard tune.* writes it again"):
        assert tuning_file.load(device.index) is None


def test_the_file_of_another_device_is_refused(device, folder):
    tuning = dataclasses.replace(tuning_of(device, TIMES), device="chip")
    tuning_file.save(device.index, tuning)
    with pytest.warns(UserWarning, match=r"cannot be used \(it is about chip, "):
        assert tuning_file.load(device.index) is None


@pytest.mark.timeout(60)
def test_what_others_may_have_written_is_refused(device, folder):
    file = tuning_file.save(device.index, tuning_of(device, TIMES))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    file.chmod(0o620)
    with pytest.warns(UserWarning, match=r"can be written by others than its owner \(mode 0620\)"):
        assert tuning_file.load(device.index) is None
    file.chmod(0o600)
    assert tuning_file.load(device.index) is not None

    folder.chmod(0o770)
    with pytest.warns(UserWarning, match=r"the folder .* can be written by others .*mode 0770"):
        assert tuning_file.load(device.index) is None
    with pytest.raises(OSError, match="mode 0770"):
        tuning_file.save(device.index, tuning_of(device, {}))
    folder.chmod(0o700)

    file.rename(folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")
    with pytest.warns(UserWarning, match="is a symbolic link and no file"):
        assert tuning_file.load(device.index) is None
    file.unlink()
    os.mkfifo(file)
    with pytest.warns(UserWarning, match="is no regular file"):
        assert tuning_file.load(device.index) is None


def test_a_folder_is_made_for_its_user_alone(device, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", f"{tmp_path}/of/mine//")
    before = os.umask(0)
    try:
        file = tuning_file.save(device.index, tuning_of(device, TIMES))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tuning_file.load(device.index).times == TIMES


def test_others_are_trusted_where_that_is_said(device, folder, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_SHARED", "1")
    file = tuning_file.save(device.index, tuning_of(device, TIMES))
    folder.chmod(0o777)
    file.chmod(0o666)
    assert tuning_file.load(device.index).times == TIMES


def test_a_file_of_another_format_is_left_alone(device, folder):
    folder.mkdir()
    tuning_file.path(device.index).write_text(json.dumps({"format": 1, "shape": "unknown"}))
    with pytest.warns(UserWarning, match=r"another version of torch_outboard .*tune.* again"):
        assert tuning_file.load(device.index) is None


def test_tune_says_that_there_is_nothing_to_tune(device, tmp_path):
    """The driver `host` compiles nothing."""
    if _C.runs_code(device.index):
        pytest.skip("this driver compiles; tests/device_kernels/ways/test_way_tuning.py tunes it")
    out = run_python(
        """
        import sys
        from torch_outboard.commands.main import main
        print(main(["tune"]))
        """,
        OUTBOARD_CACHE_DIR=str(tmp_path),
    )
    assert "runs no code, so it has one way only and nothing to tune" in out.replace("\n", " ")
    assert out.split()[-1] == "1"
    assert list(tmp_path.iterdir()) == []
