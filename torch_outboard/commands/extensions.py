"""Extensions of makers that a command loads before it looks at what is registered."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from pathlib import Path

import torch


class NotLoaded(Exception):
    """An extension that cannot be loaded; says why."""


def add_argument(parser: argparse.ArgumentParser) -> None:
    """The option `--library`."""
    parser.add_argument(
        "--library",
        action="append",
        default=[],
        metavar="EXTENSION",
        help="load this first, for its kernels: a shared library, a Python file or a module",
    )


def load(names: list[str]) -> None:
    """Loads what `--library` names.

    Raises:
        NotLoaded: if something cannot be loaded.
    """
    for name in names:
        try:
            if name.endswith(".py"):
                # As a module that stays: its kernels may use its globals.
                runpy.run_path(name, run_name=Path(name).stem)
            elif ".so" in Path(name).suffixes or Path(name).is_file():
                torch.ops.load_library(name)
            else:
                sys.path.insert(0, "")
                importlib.import_module(name)
        except Exception as error:
            raise NotLoaded(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error
