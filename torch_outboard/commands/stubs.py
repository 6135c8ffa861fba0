"""The command `stubs`: PyTorch's stubs, and whose kernels are in them for this device.

Much of what PyTorch's operators do before they compute is the same for all devices, and ends in a
stub, to which a backend brings the kernel: REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &f).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

import torch

from torch_outboard.columns import print_columns
from torch_outboard.dispatch.stubs import Stub, stubs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", help="only stubs with one of these words in their names")
    parser.add_argument("--load", action="append", default=[], help="load this library first")
    parser.add_argument("--bound", action="store_true", help="only those with a kernel")
    parser.add_argument("--usable", action="store_true", help="only those that operators ask for")


def _chosen(options: argparse.Namespace) -> Iterable[Stub]:
    for stub in stubs():
        if options.name and not any(word in stub.name for word in options.name):
            continue
        if (options.bound and not stub.bound_by) or (options.usable and not stub.operators):
            continue
        yield stub


def run(options: argparse.Namespace) -> int:
    """Prints a table, a stub per line; 1 if a library does not load or no stub is left."""
    for library in options.load:
        try:
            torch.ops.load_library(library)
        except OSError as error:
            print(f"{error}: {error.__cause__}", file=sys.stderr)
            return 1
    chosen = list(_chosen(options))
    if not chosen:
        print("PyTorch has no such stub; without arguments all are listed", file=sys.stderr)
        return 1
    rows = [("stub", "bound by", "operators", "kernel")]
    rows += [
        (
            stub.name,
            stub.bound_by or "-",
            " ".join(stub.operators) or "only for the CPU",
            stub.signature,
        )
        for stub in chosen
    ]
    print_columns(rows)
    return 0
