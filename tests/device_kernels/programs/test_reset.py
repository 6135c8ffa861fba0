"""Kernels after a reset of their device: programs and words of faults are made again.

Programs are cached on disk before the reset, or when they were made again.
"""

from pathlib import Path

import pytest

from tests.device_kernels.processes import run_program

pytestmark = pytest.mark.by_turns(3)

# The driver `ocl` with a reset, which needs everything to be released: fault injection checks.
ENVIRONMENT = {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_FAULTS": "count"}
PRELUDE = """
import torch, torch_outboard
from torch_outboard import _C
from tests.device_kernels import changed_driver
from torch_outboard.drivers import faults

changed_driver.use(device_reset=lambda context, device: 0)

def use():
    x = torch.arange(8.0, device="ocl")
    index = torch.tensor([7, 0]).to("ocl")
    return x.exp().log().round()[index].tolist()
"""

CODE = """
print(use(), use())
live = faults.live()
print(live["programs"] > 0, live["kernels"] > 0)
x = torch.arange(8.0, device="ocl")
x[torch.tensor([99]).to("ocl")]  # an assert that was not raised yet
faults.lose(0)
try:
    x.exp()
except RuntimeError as error:
    print("torch.ocl.reset_device()" in str(error))
del x
torch.ocl.reset_device()
live = faults.live()
print(live["programs"], live["kernels"], faults.misuses())
print(use(), use())
x = torch.arange(8.0, device="ocl")
x[torch.tensor([99]).to("ocl")]
try:
    torch.ocl.synchronize()
except IndexError:
    print("a fault after the reset is raised")
torch.ocl.synchronize()
print(faults.misuses(), faults.live()["programs"] > 0)
_C.finalize_driver()  # as the exit does
live = faults.live()
print(live["programs"], live["kernels"], faults.misuses())
"""


def test_kernels_are_made_again() -> None:
    assert run_program(PRELUDE + CODE, **ENVIRONMENT).splitlines() == [
        "[7.0, 0.0] [7.0, 0.0]",
        "True True",
        "True",
        "0 0 0",
        "[7.0, 0.0] [7.0, 0.0]",
        "a fault after the reset is raised",
        "0 True",
        "0 0 0",
    ]


# The thread that writes programs to disk has not come to those that were used just now.
BEFORE_THEY_WERE_WRITTEN = """
import sys
print(use(), _C.program_counts()[2])
if sys.argv[1] == "lost":
    for n in range(faults.live()["programs"]):
        faults.fail("program_binary", n + 1, "device_lost")
    faults.lose(0)
torch.ocl.reset_device()
written = _C.program_counts()[2]
_C.flush_disk_cache()
print(written > 0, _C.program_counts()[2] - written, faults.misuses())
built = _C.program_counts()[0]
print(use(), _C.program_counts()[0] > built, faults.misuses())
_C.flush_disk_cache()
print(_C.program_counts()[2] > 0, faults.misuses())
"""


@pytest.mark.parametrize("lost", [False, True])
def test_programs_that_are_to_be_written(tmp_path: Path, lost: bool) -> None:
    """The cache asks for no binary of a program that was given back."""
    # Otherwise PoCL would cache what it compiled, and entries would be written on request.
    environment = {**ENVIRONMENT, "POCL_KERNEL_CACHE": "0"}
    lines = run_program(
        PRELUDE + BEFORE_THEY_WERE_WRITTEN,
        "lost" if lost else "",
        OUTBOARD_CACHE_DIR=str(tmp_path),
        **environment,
    ).splitlines()
    assert lines == ["[7.0, 0.0] 0", f"{not lost} 0 0", f"[7.0, 0.0] {lost} 0", "True 0"]
    # Another process reads them, but for the probe of the compiler, which is not made again.
    read = "print(use(), _C.program_counts()[0])"
    printed = run_program(PRELUDE + read, OUTBOARD_CACHE_DIR=str(tmp_path), **environment)
    assert printed.split() == ["[7.0,", "0.0]", "1" if lost else "0"]
