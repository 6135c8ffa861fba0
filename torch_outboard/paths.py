"""Paths of the installed headers, library and CMake config, to build against."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def include_paths() -> list[str]:
    """Folders for the compiler's include path: `#include <outboard/driver.h>`."""
    return [str(PACKAGE / "include")]


def library_path() -> str:
    """The library to link a kernel extension against. A driver needs none."""
    return str(PACKAGE / "lib" / "libtorch_outboard.so")


def cmake_path() -> str:
    """The folder of the CMake config: `find_package(torch_outboard PATHS <cmake_path()>)`."""
    return str(PACKAGE / "share" / "cmake")
