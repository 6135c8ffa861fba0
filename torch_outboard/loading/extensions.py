"""Loads extensions that bring kernels: shared libraries, Python files, modules."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path

import torch


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
