"""leaky_relu_program.cl shows what a pointwise definition becomes before its kernels."""

from pathlib import Path

import pytest

from tests.device_kernels.processes import run_program

CODE = """
import torch
from tests.device_kernels import gpu_driver

gpu_driver.use()
x = torch.randn(5, device="ocl")
torch.nn.functional.leaky_relu(x, 0.1)
torch.ocl.synchronize()
print(next(source for source in gpu_driver.sources if "ob_result0" in source))
"""


@pytest.mark.slow
def test_the_file_shows_the_program(tmp_path):
    out = run_program(CODE, OUTBOARD_DRIVER="ocl", OUTBOARD_CACHE_DIR=str(tmp_path))
    made = out.partition("#define OB_INDEX")[2].partition("// Kernels of pointwise")[0]
    shown = Path(__file__).with_name("leaky_relu_program.cl").read_text()
    assert f"#define OB_INDEX{made}".strip() == shown.strip()
