"""The ranges of way `auto`: when they count, and the files in which they are kept."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import warnings
from pathlib import Path

import pytest

from tests.support import run_python
from torch_outboard import _C, ways
from torch_outboard.tuning import tuning_file
from torch_outboard.tuning.tuning_file import Tuning
from torch_outboard.tuning.way_tuning import better_ranges


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path / "programs"))
    return tmp_path / "programs"


def tuning_of(device, ranges, **found) -> Tuning:
    """Of the device itself: the file of another is refused."""
    tuning = tuning_file.empty(device.index)
    tuning.ranges = ranges
    return dataclasses.replace(tuning, **found)


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ({}, []),
        ({10: 0.5}, [(0, None)]),
        ({10: 1.5}, []),
        ({10: 2.0, 40: 0.9, 1000: 0.5}, [(20, None)]),
        ({1000: 0.5, 10: 0.5, 100: 0.9}, [(0, None)]),
        ({10: 0.5, 90: 0.9, 1000: 2.0}, [(0, 300)]),
        ({10: 0.5, 40: 2.0, 90: 0.5}, [(0, 20), (60, None)]),
        ({10: 2.0, 40: 0.5, 90: 2.0, 100: 3.0}, [(20, 60)]),
        # Better by nothing worth the question is not better.
        ({10: 0.97, 100: 0.96}, []),
    ],
)
def test_ranges_from_ratios(ratios, expected):
    assert better_ranges(ratios) == expected


def test_ranges_decide_for_auto(device, device_module, ranges):
    def takes(family: str, elements: int) -> bool:
        return _C.takes_device_way(device.index, "aten::sin.out", family, elements)

    properties = device_module.get_device_properties(device)
    default = not (properties.host_access == "coherent" and properties.kind == "cpu")
    chosen = {"pointwise": [(5, 10), (1000, None)], "reduction": [], "copy": [(0, None)]}
    ranges(chosen)
    answers = {n: takes("pointwise", n) for n in (0, 4, 5, 9, 10, 999, 1000, 1 << 40)}
    assert [n for n, answer in answers.items() if answer] == [5, 9, 1000, 1 << 40]
    assert not takes("reduction", 1 << 62)
    assert takes("copy", 0)
    assert [takes("unheard of", n) for n in (0, 1 << 40)] == [default, default]
    with ways.way("host", device):
        assert not takes("copy", 10)
    with ways.way("device", device):
        assert takes("reduction", 10)
    assert ways.ranges(device) == chosen


def test_an_operator_goes_before_its_family(device, ranges):
    ranges({"pointwise": [(5, None)], "aten::sin": [], "aten::__ilshift__": [(0, 5)]})

    def takes(overload: str) -> bool:
        return _C.takes_device_way(device.index, overload, "pointwise", 7)

    assert takes("aten::cos.out")
    assert takes("aten::sinh")
    assert not any(
        map(takes, ("aten::sin", "aten::sin_", "aten::sin.out", "aten::__ilshift__.Tensor"))
    )


def test_files_come_back(device, folder):
    assert tuning_file.load(device.index) is None
    tuning = tuning_of(
        device, {"pointwise": [(5, 9), (20, None)], "sort": []}, ratios={"sort": {"10": 1.5}}
    )
    file = tuning_file.save(device.index, tuning)
    assert file is not None
    assert file.parent == folder
    assert tuning_file.load(device.index) == tuning
    assert [path.name for path in folder.iterdir()] == [file.name]


def test_nothing_is_kept_without_a_folder(device, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", "")
    assert tuning_file.save(device.index, Tuning("chip", "1.2", {"pointwise": [(5, None)]})) is None
    assert tuning_file.load(device.index) is None


def test_a_failed_write_leaves_the_old_file(device, folder):
    tuning_file.save(device.index, tuning_of(device, {"pointwise": [(5, None)]}))
    with pytest.raises(TypeError):
        tuning_file.save(device.index, tuning_of(device, {"pointwise": [object()]}))
    assert len(list(folder.iterdir())) == 1
    assert tuning_file.load(device.index).ranges == {"pointwise": [(5, None)]}


@pytest.mark.parametrize(
    "content",
    ["", "[1]", '{"format": 1}', '{"format": 1, "device": "x", "driver_version": "y", '
     '"ranges": {"pointwise": "many"}}', '{"format": 1, "device": "x", "driver_version": "y", '
     '"ranges": {"pointwise": [[7, 3]]}}'],
)  # fmt: skip
def test_a_broken_file_is_a_warning(device, folder, content):
    folder.mkdir()
    file = tuning_file.path(device.index)
    file.write_text(content)
    with pytest.warns(UserWarning, match=r"cannot be used .*torch_outboard tune.* writes it again"):
        assert tuning_file.load(device.index) is None


def test_the_file_of_another_device_is_refused(device, folder):
    tuning = dataclasses.replace(tuning_of(device, {"pointwise": [(5, None)]}), device="chip")
    tuning_file.save(device.index, tuning)
    with pytest.warns(UserWarning, match=r"cannot be used \(it is about chip, "):
        assert tuning_file.load(device.index) is None


@pytest.mark.timeout(60)
def test_what_others_may_have_written_is_refused(device, folder):
    file = tuning_file.save(device.index, tuning_of(device, {"pointwise": [(5, None)]}))
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
        file = tuning_file.save(device.index, tuning_of(device, {"pointwise": [(5, None)]}))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tuning_file.load(device.index).ranges == {"pointwise": [(5, None)]}


def test_others_are_trusted_where_that_is_said(device, folder, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_SHARED", "1")
    file = tuning_file.save(device.index, tuning_of(device, {"pointwise": [(5, None)]}))
    folder.chmod(0o777)
    file.chmod(0o666)
    assert tuning_file.load(device.index).ranges == {"pointwise": [(5, None)]}


def test_a_file_of_another_format_is_left_alone(device, folder):
    folder.mkdir()
    tuning_file.path(device.index).write_text(json.dumps({"format": 0, "shape": "unknown"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
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
