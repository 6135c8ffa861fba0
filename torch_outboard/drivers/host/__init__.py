"""The host driver: devices made of the host's own memory and threads, for tests and as an example.

Its source is `host.c` beside this file, plain C against `outboard/driver.h`; the comment at its top
names the environment variables that configure it.
"""

from pathlib import Path


def library_path() -> str:
    """Path of the driver's shared library."""
    return str(Path(__file__).parent / "libob_host.so")
