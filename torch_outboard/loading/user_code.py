"""Code of the user that commands run: programs, and the option for extensions to load first."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path


def add_library_argument(parser: argparse._ActionsContainer) -> None:
    """Adds the option `--library`."""
    words = "load this first, for its kernels: a shared library, a Python file or a module"
    parser.add_argument("--library", action="append", default=[], metavar="EXTENSION", help=words)


def run_program(command: list[str]) -> int:
    """Runs a program in this process like `python command...`; returns its exit status."""
    program = Path(command[0])
    arguments, sys.argv = sys.argv, list(command)
    path, sys.path = sys.path, [str(program.resolve().parent), *sys.path]
    try:
        runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.path = arguments, path
    return 0
