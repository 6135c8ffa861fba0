"""Products and attention of float16 and bfloat16 by matrix units, which kernels emulate where there
are none.
"""

import pytest

from tests.device_kernels.processes import run_program


# Emulations of all calls take minutes; the step leaves out most.
@pytest.mark.parametrize(
    ("module", "units", "step"),
    [
        ("matrix_unit_calls", "warpgroups", 10),
        pytest.param("matrix_unit_calls", "warpgroups", 1, marks=pytest.mark.slow),
        pytest.param("matrix_unit_calls", "warps", 1, marks=pytest.mark.slow),
        ("attention_unit_calls", "emulated", 7),
        pytest.param("attention_unit_calls", "emulated", 1, marks=pytest.mark.slow),
    ],
)
def test_values(module, units, step, tmp_path):
    program = f"""
        import sys
        from tests.device_kernels.products import {module}

        sys.exit({module}.main() > 0)
    """
    # Programs from the cache on disk would not be seen as compiled.
    variables = {"OUTBOARD_CACHE_DIR": str(tmp_path), "OUTBOARD_DRIVER": "ocl"}
    printed = run_program(program, units, str(step), timeout=600, **variables)
    assert printed.strip().endswith("0 wrong")
