"""A kernel that writes where it may not is seen by an emulator, and by oclgrind where there is one,
as docs/debugging.md says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, environment_without

pytestmark = pytest.mark.by_turns(6)

EXAMPLE = ROOT / "examples" / "wrong_kernel" / "run.py"
# OCLGRIND_LIBRARY names another copy.
OCLGRIND = Path(os.environ.get("OCLGRIND_LIBRARY", "/usr/lib/oclgrind/liboclgrind-rt-icd.so"))


def output(tmp_path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = environment_without("PYTEST_") | {"OUTBOARD_CACHE_DIR": str(tmp_path), **settings}
    return subprocess.run(
        [sys.executable, EXAMPLE],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.mark.skipif(
    os.environ.get("OUTBOARD_DRIVER") != "riscv", reason="--configuration riscv runs this"
)
def test_the_emulator_ends_it(tmp_path: Path) -> None:
    result = output(tmp_path, OUTBOARD_RISCV_MEMORY=str(1 << 26))
    assert result.returncode == 1
    assert "Kernel far wrote to address" in result.stderr


@pytest.mark.skipif(not OCLGRIND.exists(), reason="there is no oclgrind here")
def test_oclgrind_says_where(tmp_path: Path) -> None:
    result = output(tmp_path, OUTBOARD_DRIVER="ocl", OUTBOARD_OCL_LIBRARY=str(OCLGRIND))
    assert "Invalid write of size 4" in result.stderr, result.stderr
    assert "Kernel: far" in result.stderr


def test_other_devices_do_not_run_it(tmp_path: Path) -> None:
    result = output(tmp_path, OUTBOARD_DRIVER="host", OUTBOARD_OCL_LIBRARY="")
    assert result.returncode == 1
    assert "does not see what a kernel writes" in result.stderr
