"""The command `trace`: runs a program and shows which operators it called.

python -m torch_outboard trace train.py --epochs 1
python -m torch_outboard trace --output trace.txt train.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torch_outboard.commands.user_code import run_program
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
    if not Path(options.program[0]).is_file():
        print(f"there is no program '{options.program[0]}'", file=sys.stderr)
        return 2
    with trace() as traced:
        code = run_program(options.program)
    if options.output is None:
        print(traced)
    else:
        options.output.write_text(f"{traced}\n", encoding="utf-8")
    return code
