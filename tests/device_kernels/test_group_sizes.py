"""Kernels in the forms of GPUs, on devices whose work-groups are no power of two."""

from pathlib import Path

import pytest

from tests.device_kernels.processes import run_program
from tests.support import run_pytest

FOLDER = Path(__file__).parent
# Tests of kernels in which the work items of a group share work.
SHARING = """test_every_family.py reductions losses indexing/test_indexing.py
images/test_convolution.py products/test_distances.py products/test_fourier.py
products/test_matrix_product.py products/test_recurrent.py::test_training
products/test_attention.py::test_causal pointwise/test_lists.py::test_norms"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lanes", [12, 192])
def test_groups_of_any_size(lanes: int) -> None:
    arguments = ["--configuration", "gpu", "-m", "not slow"]
    files = [FOLDER / test for test in SHARING.split()]
    settings = {"OUTBOARD_DRIVER": "ocl", "TEST_LANES": str(lanes)}
    result = run_pytest(*arguments, *files, without=("PYTEST_",), timeout=1000, **settings)
    assert result.returncode == 0, result.stdout[-9000:]


LANES_OF_A_DEFINITION = """
import torch
import torch_outboard
from tests.device_kernels import gpu_driver

gpu_driver.use(lanes=64)
torch.library.define("mylib::lanes", "(Tensor x) -> Tensor")

@torch_outboard.kernel(
    "mylib::lanes",
    source='''
        __kernel void lanes(OB_PARAMETERS) {
          OB_BEGIN
          OB_FOR_GROUPS(group) {
            if (OB_LANE == 0) out_store(group, OB_LOCAL * 1000 + get_local_size(0));
          }
        }
    ''',
)
def lanes(plan, x):
    plan.limit_lanes(plan.group_lanes // x.numel())
    plan.result()
    plan.constants(OB_REGISTERS=128)
    plan.launch("lanes", groups=x.numel())

for size in (1, 2, 100):
    print(int(torch.ops.mylib.lanes(torch.zeros(size, device="ocl"))[-1]))
"""


def test_a_definition_limits_its_groups(device):
    printed = run_program(LANES_OF_A_DEFINITION, timeout=300, OUTBOARD_DRIVER="ocl").split()
    assert printed == ["64064", "32032", "1001"]
