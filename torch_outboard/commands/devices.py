"""The command `devices`: a table of the devices of the driver in use."""

from __future__ import annotations

import argparse
import sys

import torch

from torch_outboard.columns import print_columns
from torch_outboard.commands.problems import device_problem
from torch_outboard.state import state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds no arguments."""


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
