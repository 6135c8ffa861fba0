"""Products of float16 and bfloat16 by matrix units, which kernels emulate where there are none."""

from __future__ import annotations

import pytest

from tests.support import run_python


@pytest.mark.parametrize(
    "units", ["warpgroups", pytest.param("warps", marks=pytest.mark.slow)]
)  # the emulation of warps takes minutes
def test_values(units):
    command = ["-m", "tests.device_kernels.products.matrix_unit_calls", units]
    assert run_python(*command, timeout=1500).strip().endswith("0 wrong")
