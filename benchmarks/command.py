"""The command line of a paired benchmark."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from benchmarks.paired import Work, compare


def run_as_command(description: str, module: str, works: Mapping[str, Work]) -> None:
    """Measures the pieces of work named on the command line, all by default, and prints them."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of: {', '.join(works)}")
    parser.add_argument("--device", default=os.environ.get("OUTBOARD_DRIVER", "host"))
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    if unknown := set(options.names) - set(works):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    compare(options.names or works, device=options.device, rounds=options.rounds, module=module)
