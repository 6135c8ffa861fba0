"""The example of a compiler for another instruction set, by hand and in a driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "compile_by_hand"

pytestmark = [
    pytest.mark.by_turns(6),
    pytest.mark.skipif(
        os.environ.get("OUTBOARD_DRIVER") != "riscv", reason="--configuration riscv runs this"
    ),
]


def test_it_compiles_and_runs() -> None:
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    clang = os.environ.get("OUTBOARD_CLANG", "")
    if clang.endswith(" clang"):  # that of `make test-riscv`: 'a/path/zig' clang
        environment["ZIG"] = clang.removesuffix(" clang").strip("'")
    result = subprocess.run(
        [sys.executable, EXAMPLE / "run.py"],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "ob_entry_saxpy" in result.stdout
    assert "array('f', [1.0, 11.0, 21.0, 31.0])" in result.stdout
    assert "Kernel poke wrote to address" in result.stdout


def test_operators_run_on_it() -> None:
    result = subprocess.run(
        [sys.executable, EXAMPLE / "softmax.py"],
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "aten::_softmax_backward_data" in result.stdout
