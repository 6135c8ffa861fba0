"""The examples of the first pages run by whatever driver they are for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import kernels_run_on

pytestmark = pytest.mark.by_turns(6)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HOST = {"OUTBOARD_DRIVER": "host", "OUTBOARD_CLANG": "none"}
SETTINGS = {
    "shared": {**HOST, "OUTBOARD_HOST_ACCESS": "shared"},
    "separate": {**HOST, "OUTBOARD_HOST_ACCESS": "separate"},
    "ocl": {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_WAY": "device"},
}
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("example", "configuration"),
    [
        ("first_kernel/function.py", "shared"),
        ("first_kernel/function.py", "separate"),
        pytest.param("first_kernel/function.py", "ocl", marks=slow),
        ("first_kernel/expression.py", "ocl"),  # needs a compiler
        ("first_kernel/own_operator.py", "ocl"),
        ("first_model/train.py", "shared"),
        pytest.param("first_model/train.py", "separate", marks=slow),
        pytest.param("first_model/train.py", "ocl", marks=slow),
    ],
)
def test_it_runs(example: str, configuration: str) -> None:
    if configuration == "ocl" and not kernels_run_on("ocl"):
        pytest.skip("the driver `ocl` runs no kernels here")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OUTBOARD_", "PYTEST_"))}
    result = subprocess.run(
        [sys.executable, EXAMPLES / example],
        env={**kept, **SETTINGS[configuration]},
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
