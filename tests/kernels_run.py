"""Says by its exit status whether the first device of the driver in use runs kernels, and why not.

python -m tests.kernels_run
"""

import importlib
import sys

import torch

import torch_outboard
from torch_outboard import _C
from torch_outboard.commands import device_checks
from torch_outboard.drivers.discovery import SHIPPED_DRIVERS


def main() -> int:
    name = torch_outboard.device_name()
    device = torch.device(name, 0)
    torch.get_device_module(device).init()
    if not _C.runs_code(device.index):
        print(f"the driver runs no code on {device}")
        module = importlib.import_module(SHIPPED_DRIVERS[name]) if name in SHIPPED_DRIVERS else None
        if hasattr(module, "describe"):
            print(module.describe())
        return 1
    problems = [check.problem for check in device_checks.check(device) if not check.passed]
    print("\n".join(problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
