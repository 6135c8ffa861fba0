"""The host driver: devices made of the host's own memory and threads, for tests and as an example.

Its source is `host.c` beside this file, plain C against `outboard/driver.h`; the comment at its top
names the environment variables that configure it.
"""

import ctypes
from pathlib import Path


def library_path() -> str:
    """Path of the driver's shared library."""
    return str(Path(__file__).parent / "libob_host.so")


def describe() -> str:
    """Which compiler makes kernels for the device, or why there are none; a line of text.

    Raises:
        OSError: if the driver's library cannot be loaded.
    """
    library = ctypes.CDLL(library_path())
    library.ob_host_describe.restype = ctypes.c_char_p
    text: bytes = library.ob_host_describe()
    return text.decode(errors="replace")
