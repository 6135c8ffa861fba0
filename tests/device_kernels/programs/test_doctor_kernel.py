"""`python -m torch_outboard doctor` builds and runs a kernel on every device that runs code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_python, try_python

ROOT = Path(__file__).parents[3]
DOCTOR = """
    import sys
    import torch, torch_outboard
    from torch_outboard.commands.main import main

    sys.path.insert(0, sys.argv[1])
    if len(sys.argv) > 2:
        from tests.device_kernels import refusing_driver
        refusing_driver.use()
    sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize("way", ["auto", "device"])
def test_a_kernel_runs(way):
    printed = run_python(DOCTOR, str(ROOT), OUTBOARD_WAY=way)
    assert printed.count("build and run a kernel") == printed.count("  PASS") // 5 > 0
    assert "FAIL" not in printed


@pytest.mark.parametrize("way", ["auto", "device", "host"])
def test_a_compiler_that_refuses_everything_fails(way):
    result = try_python(DOCTOR, str(ROOT), "refuse", OUTBOARD_WAY=way)
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.count("  PASS") == 4
    assert result.stdout.count("  FAIL") == 1
    assert "cannot build and run a kernel: a kernel does not compile" in result.stdout
