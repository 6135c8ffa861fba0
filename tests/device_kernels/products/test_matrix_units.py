"""Products of float16 and bfloat16 by matrix units, which kernels emulate where there are none."""

from __future__ import annotations

import pytest

from tests.support import run_python


# The emulation of warps takes minutes.
@pytest.mark.parametrize("units", ["warpgroups", pytest.param("warps", marks=pytest.mark.slow)])
def test_values(units):
    program = """
        import sys
        from tests.device_kernels.products import matrix_unit_calls

        sys.exit(matrix_unit_calls.main() > 0)
    """
    assert run_python(program, units, timeout=600).strip().endswith("0 wrong")
