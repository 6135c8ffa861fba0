"""Keeps the texts of the programs that the kit makes for a device with vectors of four floats.

    python -m tests.dialects.program_texts FOLDER

It compares a kernel of every family of operators with CPU (tests/device_kernels) on the driver
`host`, which is what aarch64 has, and writes each program that is built to FOLDER/<hash>.cl, its
options in the first line, behind "//".
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

OPTIONS = ["--configuration", "clang", "-p", "no:cacheprovider", "--timeout=600"]
TESTS = Path(__file__).parents[1] / "device_kernels" / "test_every_family.py"


def use(folder: Path) -> Any:
    """Makes such a driver that of this process; what is returned has to live until it ends."""
    from torch_outboard import _C
    from torch_outboard.drivers import contract, host
    from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status

    original = contract.load(host.library_path())
    table = Driver.from_buffer_copy(original)

    def build(context: int, source: Any, program: Any) -> int:
        given = source.contents
        text = b"//" + (given.options or b"") + b"\n" + given.source
        (folder / f"{hashlib.sha256(text).hexdigest()[:16]}.cl").write_bytes(text)
        status: int = original.program_build(context, source, program)
        return status

    def device_properties(context: int, device: int, properties: Any) -> int:
        status: int = original.device_properties(context, device, properties)
        if status == Status.OK:
            properties.contents.preferred_vector_width = 4
        return status

    table.program_build = FUNCTIONS["program_build"](build)
    table.device_properties = FUNCTIONS["device_properties"](device_properties)
    _C.use_driver_table("host", ctypes.addressof(table))
    return table


def main() -> int:
    folder = Path(sys.argv[1])
    os.environ |= {
        "OUTBOARD_DRIVER": "host",
        "OUTBOARD_PLACEMENT": "device",
        "OUTBOARD_CACHE_DIR": str(folder / "cache"),
    }
    import pytest

    table = use(folder)
    status = int(pytest.main(["-q", *OPTIONS, str(TESTS)]))
    del table
    return status


if __name__ == "__main__":
    sys.exit(main())
