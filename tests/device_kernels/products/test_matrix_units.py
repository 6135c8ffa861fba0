"""Products of float16 and bfloat16 by matrix units, which kernels emulate where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_python

ROOT = Path(__file__).parents[3]


# Emulations take minutes: most of the cases are slow tests.
@pytest.mark.parametrize(
    ("units", "step"),
    [
        ("warpgroups", 9),
        pytest.param("warpgroups", 1, marks=pytest.mark.slow),
        pytest.param("warps", 1, marks=pytest.mark.slow),
    ],
)
def test_values(units, step):
    program = """
        import sys
        from tests.device_kernels.products import matrix_unit_calls

        sys.exit(matrix_unit_calls.main() > 0)
    """
    assert run_python(program, units, str(step), timeout=600, PYTHONPATH=str(ROOT)).strip().endswith("0 wrong")
