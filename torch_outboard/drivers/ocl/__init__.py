"""The OpenCL driver: GPUs through the system's OpenCL loader, and a CPU through PoCL.

Its source is beside this file, C++ against `outboard/driver.h`; `ocl.h` lists the parts.
"""

import ctypes
from pathlib import Path


def library_path() -> str:
    """Path of the driver's shared library."""
    return str(Path(__file__).parent / "libob_ocl.so")


def describe() -> str:
    """Lines about the OpenCL found on this machine, and the reasons why a part is not used.

    Looks for devices if the driver is not in use yet.

    Raises:
        OSError: if the driver's library cannot be loaded.
    """
    library = ctypes.CDLL(library_path())
    library.ob_ocl_describe.restype = ctypes.c_char_p
    text: bytes = library.ob_ocl_describe()
    return text.decode(errors="replace").rstrip()
