"""Code of the user that commands run: programs, and extensions that bring kernels."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path

import torch


def add_library_argument(parser: argparse._ActionsContainer) -> None:
    """Adds the option `--library`."""
    words = "load this first, for its kernels: a shared library, a Python file or a module"
    parser.add_argument("--library", action="append", default=[], metavar="EXTENSION", help=words)


def load_extensions(names: Iterable[str]) -> None:
    """Loads the extensions that the option `--library` names.

    Raises:
        RuntimeError: if one of them cannot be loaded.
    """
    for name in names:
        try:
            if name.endswith(".py"):
                # Under the name of a module, because kernels may use the file's globals.
                runpy.run_path(name, run_name=Path(name).stem)
            elif ".so" in Path(name).suffixes or Path(name).is_file():
                torch.ops.load_library(name)
            else:
                sys.path.insert(0, "")
                importlib.import_module(name)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"{name} cannot be loaded: {problem}") from error


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
