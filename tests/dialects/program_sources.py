"""Saves the sources of the programs that the kit makes for a device with vectors of four floats.

    python -m tests.dialects.program_sources FOLDER

It compares a kernel of every family of operators with CPU (tests/device_kernels) on the driver
`host`, which is what aarch64 has, and writes each program that is built to FOLDER/<hash>.cl, its
options in the first line, behind "//".
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

OPTIONS = ["--configuration", "clang", "-p", "no:cacheprovider", "--timeout=600"]
TESTS = Path(__file__).parents[1] / "device_kernels" / "test_every_family.py"


def use(folder: Path) -> None:
    """Makes such a driver that of this process."""
    from tests.device_kernels import changed_driver
    from torch_outboard.drivers import host

    original = changed_driver.original(host)

    def build(context: int, source: Any, program: Any) -> int:
        given = source.contents
        named = b"//" + (given.options or b"") + b"\n" + given.source
        (folder / f"{hashlib.sha256(named).hexdigest()[:16]}.cl").write_bytes(named)
        status: int = original.program_build(context, source, program)
        return status

    def change(found: Any) -> None:
        found.preferred_vector_width = 4

    properties = changed_driver.with_properties(change, host)
    changed_driver.use(host, program_build=build, device_properties=properties)


def main() -> int:
    folder = Path(sys.argv[1])
    os.environ |= {
        "OUTBOARD_DRIVER": "host",
        "OUTBOARD_PLACEMENT": "device",
        "OUTBOARD_CACHE_DIR": str(folder / "cache"),
    }
    import pytest

    use(folder)
    return int(pytest.main(["-q", *OPTIONS, str(TESTS)]))


if __name__ == "__main__":
    sys.exit(main())
