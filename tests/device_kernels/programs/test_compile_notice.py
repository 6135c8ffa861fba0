"""The line that says that a process compiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import try_python

pytestmark = pytest.mark.by_turns(3)

USE = """
    import torch, torch_outboard

    x = torch.rand(64, 64, device=torch_outboard.device_name())
    torch.get_device_module(x.device).synchronize()
    x.sum(), x.exp()
    torch.get_device_module(x.device).synchronize()
"""


@pytest.mark.parametrize("kept", [True, False])
def test_it_comes_once_and_says_what_the_next_run_finds(tmp_path: Path, kept: bool):
    result = try_python(
        USE,
        OUTBOARD_WAY="device",
        OUTBOARD_COMPILE_NOTICE="0.001",
        OUTBOARD_CACHE_DIR=str(tmp_path / "programs") if kept else "",
        POCL_CACHE_DIR=str(tmp_path / "pocl"),
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("went into compiling kernels") == 1
    assert ("kept on disk" in result.stderr) == kept


def test_nothing_is_said_where_it_is_off(tmp_path: Path):
    result = try_python(
        USE,
        OUTBOARD_WAY="device",
        OUTBOARD_COMPILE_NOTICE="0",
        OUTBOARD_CACHE_DIR=str(tmp_path / "programs"),
        POCL_CACHE_DIR=str(tmp_path / "pocl"),
    )
    assert result.returncode == 0, result.stderr
    assert "compiling" not in result.stderr
