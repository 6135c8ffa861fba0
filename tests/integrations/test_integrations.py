"""Without the libraries: what is enabled is what is installed. With them: tests/libraries."""

from __future__ import annotations

import importlib.util
import os

import pytest

from torch_outboard.integrations import accelerate, enable, lightning


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv(accelerate.VARIABLE, raising=False)


@pytest.mark.usefixtures("nothing_installed")
def test_libraries_that_are_not_installed() -> None:
    assert enable() == []
    assert not lightning.enable()
    assert accelerate.VARIABLE not in os.environ


def test_a_variable_that_is_set_stays(device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv(accelerate.VARIABLE, f"{device.type}:1")
    assert enable("accelerate") == ["accelerate"]
    assert os.environ[accelerate.VARIABLE] == f"{device.type}:1"
    monkeypatch.delenv(accelerate.VARIABLE)
    enable("accelerate")
    assert os.environ[accelerate.VARIABLE] == device.type


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="no integration of 'nothing'; there are 'accelerate'"):
        enable("nothing")
