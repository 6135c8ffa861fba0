"""The target of kernels equals the device's compiler."""

from pathlib import Path
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.changed import ROOT
from tests.inductor.support import checked_code, skip_without_kernels
from tests.support import run_python
from torch_outboard import _C
from torch_outboard.inductor import target


def test_kernels_with_fewer_lanes(device: torch.device, monkeypatch: pytest.MonkeyPatch):
    """As on a processor whose compiler refuses vectors beyond its registers."""

    def function(x, i, mask):
        y = (x.double() * 3 + i).sin().float()
        z = torch.where(mask, y, x.relu()).softmax(-1)
        whole = (i * 3 // 2).to(torch.uint8)
        return z, z.sum(0), z.argmax(-1), x.var(-1), i.cumsum(-1), whole, x[i]

    skip_without_kernels()
    runs = target._runs
    assert not runs(device, 5)  # OpenCL C has no such vectors
    monkeypatch.setattr(target, "_runs", lambda d, lanes: lanes <= 4 and runs(d, lanes))
    target.target_of.cache_clear()
    try:
        x = torch.randn(37, 41)
        arguments = x, torch.randint(0, 37, (37, 41)), x > 0.3
        code = checked_code(function, *arguments, device=device)
    finally:
        target.target_of.cache_clear()
    if _C.device_properties(0).kind == "cpu":
        assert "ob_load_float4(" in code
        assert "float8(" not in code


def test_the_trial_of_vectors_has_memory_within_a_mode(device: torch.device):
    """A pass over a graph that runs first would have it write through null pointers."""
    skip_without_kernels()
    launched = []

    class Kernel:
        def __init__(self, *arguments, **options):
            self.kernel = graph_kernel(*arguments, **options)

        def build(self, index):
            return self.kernel.build(index)

        def __call__(self, *arguments):
            launched.extend(arguments[:2])
            return self.kernel(*arguments)

    graph_kernel = _C.GraphKernel
    with mock.patch.object(_C, "GraphKernel", Kernel), FakeTensorMode():
        assert target._runs(device, 4)
    assert [type(x) for x in launched] == [torch.Tensor] * 2


# Kernels in the forms of GPUs.
REDUCTIONS = """
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
for index, (got, want) in enumerate(zip(actual, function(x, w))):
    bound = 1e-3 if want.dtype == torch.float16 else 1e-4  # a rounding of float16 is 5e-4
    bounds = {"rtol": bound, "atol": bound}
    torch.testing.assert_close(got.cpu(), want, **bounds, msg=lambda m: f"{index}: {m}")
print(len(gpu_driver.sources) > 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [96, 256])
def test_reductions_by_work_groups_of_several_sizes(device, tmp_path: Path, lanes: int):
    if device.type != "ocl":
        pytest.skip("the driver of GPUs' forms wraps the driver 'ocl'")
    printed = run_python(
        REDUCTIONS, str(lanes), timeout=300, OUTBOARD_DRIVER="ocl", OUTBOARD_PLACEMENT="device",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"),
        OUTBOARD_CACHE_DIR=str(tmp_path / "programs"), PYTHONPATH=str(ROOT),
    )  # fmt: skip
    assert printed.strip() == "True"
