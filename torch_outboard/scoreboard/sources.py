"""A fingerprint of what results depend on: what passed on the same sources need not run again.

That is the package, the driver, PyTorch, Python, and files of exclusions.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from torch_outboard.drivers.discovery import DEFAULT_DRIVER, SHIPPED_DRIVERS, choose_driver
from torch_outboard.state import PACKAGE

# Made by use, not by whoever builds the package.
MADE = ("__pycache__",)


def driver_in_use(driver: str) -> str:
    """Name or path: as given, else as the environment says, else the default."""
    return driver or os.environ.get("OUTBOARD_DRIVER") or DEFAULT_DRIVER


def is_shipped(driver: str) -> bool:
    return driver_in_use(driver) in SHIPPED_DRIVERS


def fingerprint(driver: str, files: Iterable[Path] = ()) -> str:
    digest = hashlib.sha256()
    for path in sorted({*_contents(PACKAGE), *_driver_files(driver), *files}):
        with path.open("rb") as file:
            digest.update(f"{path} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    digest.update(f"{metadata.version('torch')} {sys.version}".encode())
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    for path in sorted((Path(spec.origin).parent / "lib").glob("*.so*")):
        state = path.stat()  # too large to be read
        digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _contents(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part in MADE for part in path.parts)
    ]


def _driver_files(driver: str) -> list[Path]:
    """Of a driver that is not the kit's: its library, and the folder of its module."""
    choice = choose_driver(driver_in_use(driver))
    files = [choice.library] if choice.library is not None and choice.library.exists() else []
    spec = None
    if choice.module is not None and not is_shipped(driver):
        spec = importlib.util.find_spec(choice.module.partition(".")[0])
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        files += _contents(Path(folder))
    if spec is not None and not spec.submodule_search_locations and spec.origin:
        files.append(Path(spec.origin))
    return files
