"""Validation: compares the answers of any driver with what `outboard/driver.h` promises.

It is active in a process started with `OUTBOARD_VALIDATE=1`, in `python -m torch_outboard doctor`
and in `check`. The comment at the top of `validation.cpp` lists its checks.
"""

from pathlib import Path


def library_path() -> str:
    """Path of the shared library that wraps a driver."""
    return str(Path(__file__).parent / "libob_validation.so")
