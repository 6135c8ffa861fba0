"""Kernels after a reset of their device: programs and words of faults are made again."""

from __future__ import annotations

from tests.support import run_python

# The driver `ocl` with a reset, which asks that everything was given back: torture looks at that.
CODE = """
import torch, torch_outboard
from torch_outboard import _C
from torch_outboard.drivers import contract, ocl, torture

table = contract.Driver.from_buffer_copy(contract.load(ocl.library_path()))
kept = contract.FUNCTIONS["device_reset"](lambda context, device: 0)
table.device_reset = kept
torch_outboard.use_driver(table)

def use():
    x = torch.arange(8.0, device="ocl")
    index = torch.tensor([7, 0]).to("ocl")
    return x.exp().log().round()[index].tolist()

print(use(), use())
live = torture.live()
print(live["programs"] > 0, live["kernels"] > 0)
x = torch.arange(8.0, device="ocl")
x[torch.tensor([99]).to("ocl")]  # a fault that nobody was told of
torture.lose(0)
try:
    x.exp()
except RuntimeError as error:
    print("torch.ocl.reset_device()" in str(error))
del x
torch.ocl.reset_device()
live = torture.live()
print(live["programs"], live["kernels"], torture.misuses())
print(use(), use())
x = torch.arange(8.0, device="ocl")
x[torch.tensor([99]).to("ocl")]
try:
    torch.ocl.synchronize()
except IndexError:
    print("a fault after the reset is raised")
torch.ocl.synchronize()
print(torture.misuses(), torture.live()["programs"] > 0)
"""


def test_kernels_are_made_again() -> None:
    environment = {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_WAY": "device", "OUTBOARD_TORTURE": "count"}
    assert run_python(CODE, **environment).splitlines() == [
        "[7.0, 0.0] [7.0, 0.0]",
        "True True",
        "True",
        "0 0 0",
        "[7.0, 0.0] [7.0, 0.0]",
        "a fault after the reset is raised",
        "0 True",
    ]
