"""`python -m torch_outboard trace train.py`: runs a program and shows which operators it called."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from torch_outboard.inspection.tracing import trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the table to a file, not to the terminal"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, help="a Python program and its arguments"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the program like `python program ...` and prints the trace; returns its exit status."""
    if not options.program:
        print("trace needs a program: trace train.py --epochs 1", file=sys.stderr)
        return 2
    program = Path(options.program[0])
    if not program.is_file():
        print(f"there is no program '{program}'", file=sys.stderr)
        return 2
    arguments, sys.argv = sys.argv, list(options.program)
    path, sys.path = sys.path, [str(program.resolve().parent), *sys.path]
    code = 0
    try:
        with trace() as traced:
            try:
                runpy.run_path(str(program), run_name="__main__")
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.path = arguments, path
    if options.output is None:
        print(traced)
    else:
        options.output.write_text(f"{traced}\n", encoding="utf-8")
    return code
