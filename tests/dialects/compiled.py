"""OpenCL C of tests, compiled by a clang behind the dialect's headers and called through ctypes."""

import ctypes
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import torch_outboard

Array = np.ndarray[Any, np.dtype[Any]]
DIALECT = Path(torch_outboard.__file__).parent / "dialects" / "clang"
LANGUAGE = ["-x", "cl", "-cl-std=CL1.2", "-cl-no-stdinc", "-Xclang", "-cl-ext=+all", "-w"]


def find_clangs() -> list[list[str]]:
    """Commands of the clangs here: OUTBOARD_CLANG, the one in ziglang, those on PATH."""
    found = []
    given = os.environ.get("OUTBOARD_CLANG", "")
    if given and given != "none":
        found.append(shlex.split(given))
    package = importlib.util.find_spec("ziglang")
    if package is not None and package.submodule_search_locations:
        found.append([str(Path(package.submodule_search_locations[0]) / "zig"), "clang"])
    names = {"clang"}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if Path(folder).is_dir():
            names.update(n for n in os.listdir(folder) if re.fullmatch(r"clang-\d+", n))
    found += [[path] for path in map(shutil.which, sorted(names)) if path is not None]
    seen: dict[str, list[str]] = {}
    for command in found:
        version = subprocess.run([*command, "--version"], capture_output=True, text=True)
        if version.returncode == 0:
            seen.setdefault(version.stdout.splitlines()[0], command)
    return list(seen.values())


CLANGS = find_clangs()
LINKER = shutil.which("cc")
MISSING = (
    "no clang: install ziglang, or name one in OUTBOARD_CLANG"
    if not CLANGS
    else "no cc that links"
    if LINKER is None
    else None
)


def compile_object(
    source: str, flags: Sequence[str], folder: Path, clang: Sequence[str] | None = None
) -> Path:
    """An object file of OpenCL C, behind opencl.h.

    Raises:
        subprocess.CalledProcessError: if it does not compile; the log is its stderr.
    """
    file, compiled = folder / "program.cl", folder / "program.o"
    file.write_text(source)
    command = [*(clang or CLANGS[0]), *LANGUAGE, "-include", str(DIALECT / "opencl.h"), *flags]
    subprocess.run(
        [*command, "-c", str(file), "-o", str(compiled)], check=True, capture_output=True, text=True
    )
    return compiled


def load(
    source: str,
    flags: Sequence[str] = ("-march=native", "-O2"),
    clang: Sequence[str] | None = None,
) -> ctypes.CDLL:
    """The functions of an OpenCL C source, for this processor."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled = compile_object(source, [*flags, "-fPIC"], folder, clang)
        library = folder / "program.so"
        command = [str(LINKER), "-shared", "-fPIC", str(compiled), "-o", str(library), "-lm"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return ctypes.CDLL(str(library))


def run(library: ctypes.CDLL, name: str, out: Array, *arguments: Array) -> Array:
    """Calls a function with the addresses of the arguments and of `out`, and its size."""
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arguments, out)]
    getattr(library, name)(*pointers, ctypes.c_long(out.size))
    return out


def load_c(source: Path) -> ctypes.CDLL:
    """The functions of a file in C."""
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "library.so"
        command = [str(LINKER), "-O2", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return ctypes.CDLL(str(library))
