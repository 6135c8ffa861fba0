"""Compiled kernels in the forms of GPUs, with work-groups of several sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.line_process import ROOT
from tests.support import run_python

PROGRAM = """
import sys
import torch
import torch.nn.functional as F
import torch_outboard
from tests.device_kernels import gpu_driver

gpu_driver.use(lanes=int(sys.argv[1]))


def function(x, w):
    flags = x > 0.5
    return (
        (x * w).relu().sum(), x.softmax(1), F.layer_norm(x, (301,)), x.var(0), x.argmax(1),
        x.amin(0), flags.any(1), flags.sum(0), (x.mean(1, keepdim=True) + x).half(),
        x[:, :40].softmax(1), x[:, :40].var(1), x[:, 60:100].argmax(1),  # by smaller groups
    )


torch.manual_seed(0)
x, w = torch.randn(37, 301), torch.randn(301)
actual = torch.compile(function)(x.to("ocl"), w.to("ocl"))
for place, (got, want) in enumerate(zip(actual, function(x, w))):
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4, msg=lambda m: f"{place}: {m}")
print(len(gpu_driver.sources) > 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [96, 256])
def test_reductions(device, tmp_path: Path, lanes: int):
    if device.type != "ocl":
        pytest.skip("the driver of GPUs' forms wraps the driver 'ocl'")
    printed = run_python(
        PROGRAM, str(lanes), timeout=300, OUTBOARD_DRIVER="ocl", OUTBOARD_WAY="device",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"),
        OUTBOARD_CACHE_DIR=str(tmp_path / "programs"), PYTHONPATH=str(ROOT),
    )  # fmt: skip
    assert printed.strip() == "True"
