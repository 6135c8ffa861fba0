"""The example of training in several processes ends well, with a worker killed on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.running import ROOT, environment, everywhere, has_devices
from tests.support import SLOWNESS

pytestmark = pytest.mark.by_turns(6)

EXAMPLE = ROOT / "examples" / "distributed_digits.py"


@pytest.mark.slow
@everywhere
def test_example(configuration: str, tmp_path: Path) -> None:
    if not has_devices(configuration):
        pytest.skip(f"no device for {configuration}")
    options = ["--epochs", "6", "--channels", "8", "--output", str(tmp_path / "output")]
    result = subprocess.run(
        [sys.executable, str(EXAMPLE), *options],
        capture_output=True, text=True, timeout=400 * SLOWNESS, check=False,
        env=environment(configuration, OMP_NUM_THREADS="1", COLUMNS="120"),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the last worker is killed after epoch 3" in result.stdout
    assert "started again; goes on from the checkpoint before epoch 4" in result.stdout
    for row in ("test accuracy", "time per step", "of it communication", "communication hidden"):
        assert row in result.stdout
