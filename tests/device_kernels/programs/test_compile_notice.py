"""The line that says that a process compiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.device_kernels.processes import try_program

pytestmark = pytest.mark.by_turns(3)

USE = """
    import torch, torch_outboard

    x = torch.rand(64, 64, device=torch_outboard.device_name())
    torch.get_device_module(x.device).synchronize()
    x.sum(), x.exp()
    torch.get_device_module(x.device).synchronize()
"""


def said(tmp_path: Path, notice: str, folder: str) -> str:
    """What the program says of compilations, with nothing compiled before."""
    result = try_program(
        USE,
        OUTBOARD_COMPILE_NOTICE=notice,
        OUTBOARD_CACHE_DIR=folder,
        POCL_CACHE_DIR=str(tmp_path / "pocl"),
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


@pytest.mark.parametrize("kept", [True, False])
def test_it_comes_once_and_says_what_the_next_run_finds(tmp_path: Path, kept: bool):
    text = said(tmp_path, "0.001", str(tmp_path / "programs") if kept else "")
    assert text.count("went into compiling kernels") == 1
    assert ("kept on disk" in text) == kept


@pytest.mark.slow
def test_nothing_is_said_where_it_is_off(tmp_path: Path):
    assert "compiling" not in said(tmp_path, "0", str(tmp_path / "programs"))
