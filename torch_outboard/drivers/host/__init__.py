"""The host driver: devices on memory and threads of the host, for tests and as an example.

Its source is beside this file, plain C against `outboard/driver.h`; `host.h` lists the parts.
"""

import ctypes
from pathlib import Path


def library_path() -> str:
    """Path of the driver's shared library."""
    return str(Path(__file__).parent / "libob_host.so")


def describe() -> str:
    """A line that names the compiler of kernels for the device, or the reason why there is none.

    Raises:
        OSError: if the driver's library cannot be loaded.
    """
    library = ctypes.CDLL(library_path())
    library.ob_host_describe.restype = ctypes.c_char_p
    text: bytes = library.ob_host_describe()
    return text.decode(errors="replace")
