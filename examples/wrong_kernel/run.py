"""A kernel that writes 1 GiB behind its result, for tools that detect this. On a device without
checks it overwrites other memory, or ends the process.

OUTBOARD_DRIVER=riscv OUTBOARD_RISCV_MEMORY=67108864 python examples/wrong_kernel/run.py
OUTBOARD_OCL_LIBRARY=/usr/lib/oclgrind/liboclgrind-rt-icd.so python examples/wrong_kernel/run.py
"""

import os
import sys

import torch

import torch_outboard
from torch_outboard import placement

if os.environ.get("OUTBOARD_DRIVER") != "riscv" and "grind" not in os.environ.get(
    "OUTBOARD_OCL_LIBRARY", ""
):
    sys.exit("This device does not see what a kernel writes: use the driver `riscv`, or oclgrind.")

torch.library.define("wrong::far", "(Tensor x) -> Tensor")


@torch_outboard.kernel(
    "wrong::far",
    source="""
        __kernel void far(OB_PARAMETERS) {
          OB_BEGIN
          OB_ITEM(i)
          out_store(i + (1 << 28), x_load(i));
        }
    """,
)
def far(plan, x):
    plan.launch("far", plan.result().numel())


device = torch.device(torch_outboard.device_name())
with placement.use("device"):
    torch.ops.wrong.far(torch.ones(4, device=device))
    torch.get_device_module(device).synchronize()
