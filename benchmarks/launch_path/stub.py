"""Builds the stub of OpenCL (stub_opencl.cpp), makes it the driver's OpenCL, counts its calls."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
HEADERS = HERE.parents[1] / "torch_outboard" / "drivers" / "ocl"


def build(folder: Path) -> Path:
    """Compiles the stub into a folder and returns the library."""
    library = folder / "libstub_opencl.so"
    command = ["c++", "-std=c++20", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{HEADERS}", str(HERE / "stub_opencl.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def settings(library: Path) -> dict[str, str]:
    """Environment variables of a process whose driver `ocl` is to use the stub."""
    return {
        "OUTBOARD_DRIVER": "ocl",
        "OUTBOARD_PLACEMENT": "",
        "OUTBOARD_OCL_LIBRARY": str(library),
        "OUTBOARD_OCL_DEVICES": "",
        "OUTBOARD_OCL_MEMORY": "",
        "OUTBOARD_CACHE_DIR": "",
        "OUTBOARD_COMPILE_NOTICE": "0",
        "OMP_NUM_THREADS": "1",
    }


class Calls:
    """Counts calls of OpenCL in a process that uses the stub."""

    def __init__(self) -> None:
        library = ctypes.CDLL(os.environ["OUTBOARD_OCL_LIBRARY"])
        self._calls = library.stub_opencl_calls
        self._calls.restype = ctypes.c_uint64

    def __getitem__(self, function: str) -> int:
        count: int = self._calls(function.encode())
        return count
