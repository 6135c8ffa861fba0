"""The line that says that a process compiles."""

from pathlib import Path

import pytest

from tests.device_kernels.processes import try_program

pytestmark = pytest.mark.by_turns(3)

# Sources that nothing has compiled before.
USE = """
    import uuid
    import torch, torch_outboard
    from torch_outboard import _C

    x = torch.zeros(1, device=torch_outboard.device_name())
    for _ in range(2):
        source = f"__kernel void k(OB_POINTER(float, x)) {{ OB_BIND(float, x) x[0] = 2; }}"
        source += f"// {uuid.uuid4()}"
        _C.launch_kernel(0, source, "k", "", [1], [1], [("address", x.data_ptr())])
        torch.get_device_module(x.device).synchronize()
"""


@pytest.mark.parametrize(
    ("notice", "cached"),
    [("0.001", True), ("0.001", False), pytest.param("0", True, marks=pytest.mark.slow)],
)
def test_it_comes_once_and_says_what_the_next_run_finds(tmp_path: Path, notice: str, cached: bool):
    folder = str(tmp_path) if cached else ""
    result = try_program(USE, OUTBOARD_COMPILE_NOTICE=notice, OUTBOARD_CACHE_DIR=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("of compiling kernels so far") == (notice != "0")
    assert ("cached on disk" in result.stderr) == (cached and notice != "0")
