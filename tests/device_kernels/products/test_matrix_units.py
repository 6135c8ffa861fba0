"""Products and attention of float16 and bfloat16 by matrix units, which kernels emulate where there
are none.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import run_python

ROOT = Path(__file__).parents[3]


# Emulations take minutes. A run that is not slow takes the first case and the fourth
# (../conftest.py), which leave out most of the calls.
@pytest.mark.by_turns(2)
@pytest.mark.parametrize(
    ("module", "units", "step"),
    [
        ("matrix_unit_calls", "warpgroups", 9),
        ("matrix_unit_calls", "warpgroups", 1),
        ("matrix_unit_calls", "warps", 1),
        ("attention_unit_calls", "emulated", 7),
        ("attention_unit_calls", "emulated", 1),
    ],
)
def test_values(module, units, step, tmp_path):
    program = f"""
        import sys
        from tests.device_kernels.products import {module}

        sys.exit({module}.main() > 0)
    """
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    # Programs from the cache on disk would not be seen as compiled.
    environment = {"PYTHONPATH": path, "OUTBOARD_CACHE_DIR": str(tmp_path)}
    printed = run_python(program, units, str(step), timeout=600, **environment)
    assert printed.strip().endswith("0 wrong")
