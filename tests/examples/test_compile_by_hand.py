"""The example of a compiler for another instruction set, by hand and in a driver."""

import os
import sys
from pathlib import Path

import pytest

from tests.examples.running import ROOT, run

EXAMPLE = ROOT / "examples" / "compile_by_hand"

pytestmark = [
    pytest.mark.by_turns(6),
    pytest.mark.skipif(
        os.environ.get("OUTBOARD_DRIVER") != "riscv", reason="--configuration riscv runs this"
    ),
]


def test_it_compiles_and_runs() -> None:
    settings = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    clang = os.environ.get("OUTBOARD_CLANG", "")
    if clang.endswith(" clang"):  # that of `make test-riscv`: 'a/path/zig' clang
        settings["ZIG"] = clang.removesuffix(" clang").strip("'")
    printed = run(EXAMPLE / "run.py", None, **settings)
    assert "ob_entry_saxpy" in printed
    assert "array('f', [1.0, 11.0, 21.0, 31.0])" in printed
    assert "Kernel poke wrote to address" in printed


def test_operators_run_on_it() -> None:
    assert "aten::_softmax_backward_data" in run(EXAMPLE / "softmax.py", None)
