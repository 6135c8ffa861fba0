"""`python -m torch_outboard schemas`: does what is registered here fit another PyTorch?

python -m torch_outboard schemas --against 2.15
python -m torch_outboard schemas --against 2.15 --library libmykernels.so
python -m torch_outboard schemas --save schemas-here.json
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import torch

from torch_outboard.columns import print_columns
from torch_outboard.commands import extensions
from torch_outboard.inspection.schema_drift import (
    BREAKS,
    FITS,
    NAMES,
    UNUSED,
    Drift,
    drift,
    registered,
)
from torch_outboard.inspection.schemas import UnknownVersion, installed, save, schemas_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--against",
        metavar="VERSION",
        help="compare with a version of PyTorch that the kit supports (2.15), with a file that "
        "--save wrote, or with the folder of another PyTorch or of its headers",
    )
    what.add_argument(
        "--save", type=Path, metavar="FILE", help="write this PyTorch's schemas to a file"
    )
    extensions.add_argument(parser)
    parser.add_argument(
        "--all", action="store_true", help="also what fits, and operators that are new there"
    )


def run(options: argparse.Namespace) -> int:
    """Compares or saves; 1 if something that an extension brings will not be called there, or
    anything does not fit."""
    try:
        extensions.load(options.library)
        if options.save is not None:
            print(f"{save(options.save)} schemas of PyTorch {torch.__version__} in {options.save}")
            return 0
        version, there = schemas_of(options.against)
    except (extensions.NotLoaded, UnknownVersion, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    kernels = registered()
    found = drift(kernels, installed(), there)
    shown = [d for d in found if options.all or d.verdict != FITS]
    _print(shown)
    counts = Counter(d.verdict for d in found if d.by)
    new = sum(d.change == "added" for d in found)
    same = len(kernels) - sum(counts.values())
    hidden = not options.all and (new or counts[FITS])
    print(
        f"{len(kernels)} registrations for PyTorch {torch.__version__} against {version}: "
        f"{same} are the same, {counts[FITS]} fit, {counts[UNUSED]} would never be called, "
        f"{counts[NAMES]} have other names, {counts[BREAKS]} do not fit; "
        f"{new} operators are new there" + (" (--all shows them)" if hidden else "")
    )
    return int(any(d.verdict == BREAKS or (d.verdict == UNUSED and d.by != "kit") for d in found))


def _print(found: list[Drift]) -> None:
    """A table, and under it the schemas that differ in more than being there."""
    if not found:
        return
    rows = [("operator", "change", "registered by", "form", "verdict")]
    rows += [(d.name, d.change, d.by or "-", d.form or "-", d.verdict) for d in found]
    print_columns(rows)
    print()
    for drifted in {d.name: d for d in found if d.here and d.there}.values():
        print(f"here   {drifted.here}\nthere  {drifted.there}\n")
