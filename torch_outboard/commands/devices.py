"""The command `devices`: a table of the devices of the driver in use, or why there are none.

python -m torch_outboard devices
OUTBOARD_OCL_DEVICES=NVIDIA python -m torch_outboard devices
"""

from __future__ import annotations

import argparse
import sys

import torch

from torch_outboard.columns import print_columns
from torch_outboard.state import check_active, state


def run(options: argparse.Namespace) -> int:
    """Prints the table; 1 if no device can be used."""
    problem = device_problem()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 1
    name = state.name
    module = torch.get_device_module(name)
    rows = [("device", "name", "kind", "memory", "units", "host access")]
    for index in range(module.device_count()):
        p = module.get_device_properties(index)
        memory = f"{p.total_memory / 2**30:.1f} GiB"
        units = str(p.multi_processor_count)
        rows.append((f"{name}:{index}", p.name, p.kind, memory, units, p.host_access))
    print_columns(rows)
    return 0


def device_problem() -> str | None:
    """The reason why the device cannot be used; None if it can."""
    try:
        check_active()
        torch.get_device_module(state.name).init()
    except RuntimeError as error:
        return str(error).partition("\nException raised from")[0]
    return None


def index_problem(index: int) -> str | None:
    """The reason why a working driver has no device of an index; None if it has one."""
    name = state.name
    count = torch.get_device_module(name).device_count()
    if 0 <= index < count:
        return None
    there = "one device, 0" if count == 1 else f"{count} devices, 0 to {count - 1}"
    return f"device {index} was asked for, and '{name}' has {there}; `devices` lists them"


def dtype_named(name: str) -> torch.dtype:
    """The dtype `torch.<name>`; raises ValueError if there is none."""
    dtype = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"'{name}' is not a dtype; write it as in float32")
    return dtype
