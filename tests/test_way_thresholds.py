"""The thresholds of way `auto`: when they count, and the files in which they are kept."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tests.support import run_python
from torch_outboard import _C, way_thresholds, ways
from torch_outboard.way_thresholds import Tuning
from torch_outboard.way_tuning import threshold


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path / "programs"))
    return tmp_path / "programs"


@pytest.fixture
def thresholds(device):
    """Sets thresholds of the device for a test."""
    before = _C.way_thresholds(device.index)
    with ways.way("auto", device):
        yield lambda chosen: _C.set_way_thresholds(device.index, chosen)
    _C.set_way_thresholds(device.index, before)


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ({}, None),
        ({10: 0.5}, 10),
        ({10: 1.5}, None),
        ({10: 2.0, 100: 0.9, 1000: 0.5}, 100),
        ({10: 0.5, 100: 0.9, 1000: 0.5}, 10),
        # Better somewhere in the middle, or by nothing worth the question, is not better.
        ({10: 0.5, 100: 2.0, 1000: 0.5}, 1000),
        ({10: 0.5, 100: 0.5, 1000: 1.2}, None),
        ({10: 0.97, 100: 0.96}, None),
    ],
)
def test_threshold_from_ratios(ratios, expected):
    assert threshold(ratios) == expected


def test_thresholds_decide_for_auto(device, device_module, thresholds):
    def takes(family: str, elements: int) -> bool:
        return _C.takes_device_way(device.index, family, elements)

    properties = device_module.get_device_properties(device)
    default = not (properties.host_access == "coherent" and properties.kind == "cpu")
    thresholds({"pointwise": 1000, "reduction": None, "copy": 0})
    assert [takes("pointwise", n) for n in (0, 999, 1000, 1 << 40)] == [False, False, True, True]
    assert not takes("reduction", 1 << 62)
    assert takes("copy", 0)
    assert [takes("unheard of", n) for n in (0, 1 << 40)] == [default, default]
    with ways.way("host", device):
        assert not takes("copy", 10)
    with ways.way("device", device):
        assert takes("reduction", 10)
    assert ways.thresholds(device) == {"pointwise": 1000, "reduction": None, "copy": 0}


def test_files_come_back(device, folder):
    assert way_thresholds.load(device.index) is None
    tuning = Tuning("chip", "1.2", {"pointwise": 5, "sort": None}, ratios={"sort": {"10": 1.5}})
    file = way_thresholds.save(device.index, tuning)
    assert file is not None
    assert file.parent == folder
    assert way_thresholds.load(device.index) == tuning
    assert [path.name for path in folder.iterdir()] == [file.name]


def test_nothing_is_kept_without_a_folder(device, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", "")
    assert way_thresholds.save(device.index, Tuning("chip", "1.2", {"pointwise": 5})) is None
    assert way_thresholds.load(device.index) is None


def test_a_failed_write_leaves_the_old_file(device, folder):
    way_thresholds.save(device.index, Tuning("chip", "1.2", {"pointwise": 5}))
    with pytest.raises(TypeError):
        way_thresholds.save(device.index, Tuning("chip", "1.2", {"pointwise": object()}))  # type: ignore[dict-item]
    assert len(list(folder.iterdir())) == 1
    assert way_thresholds.load(device.index).thresholds == {"pointwise": 5}


@pytest.mark.parametrize(
    "content",
    ["", "[1]", '{"format": 1}', '{"format": 1, "device": "x", "driver_version": "y", '
     '"thresholds": {"pointwise": "many"}}', '{"format": 1, "device": "x", "driver_version": "y", '
     '"thresholds": {"pointwise": -1}}'],
)  # fmt: skip
def test_a_broken_file_is_a_warning(device, folder, content):
    folder.mkdir()
    file = way_thresholds.path(device.index)
    file.write_text(content)
    with pytest.warns(UserWarning, match=r"cannot be used .*torch_outboard tune.* writes it again"):
        assert way_thresholds.load(device.index) is None


def test_a_file_of_another_format_is_left_alone(device, folder):
    folder.mkdir()
    way_thresholds.path(device.index).write_text(json.dumps({"format": 0, "shape": "unknown"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert way_thresholds.load(device.index) is None


def test_tune_says_that_there_is_nothing_to_tune(device, tmp_path):
    """The driver `host` compiles nothing."""
    if _C.runs_code(device.index):
        pytest.skip("this driver compiles; tests/engines/test_way_tuning.py tunes it")
    out = run_python(
        """
        import sys
        from torch_outboard.cli import main
        print(main(["tune"]))
        """,
        OUTBOARD_CACHE_DIR=str(tmp_path),
    )
    assert "runs no code, so it has one way only and nothing to tune" in out.replace("\n", " ")
    assert out.split()[-1] == "1"
    assert list(tmp_path.iterdir()) == []
