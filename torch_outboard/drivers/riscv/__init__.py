"""The RISC-V driver: an emulator that runs kernels on another instruction set in its own memory.

Its source is beside this file, C++ against `outboard/driver.h`; `riscv.h` lists the parts.
"""

from pathlib import Path


def library_path() -> str:
    """Path of the driver's shared library."""
    return str(Path(__file__).parent / "libob_riscv.so")
