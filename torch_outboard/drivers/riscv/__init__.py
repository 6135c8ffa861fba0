"""The RISC-V driver: kernels on another instruction set, with memory of its own, in an emulator.

Its source lies beside this file, C++ against `outboard/driver.h`; `riscv.h` lists the parts and
`settings.cpp` the environment variables that configure it.
"""

from pathlib import Path


def library_path() -> str:
    """Path of the driver's shared library."""
    return str(Path(__file__).parent / "libob_riscv.so")
