"""Errors of the driver riscv where something is missing: `--configuration riscv`."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from driver_support import is_riscv_tested, open_driver

from torch_outboard.drivers import riscv
from torch_outboard.drivers.client import DriverError

pytestmark = pytest.mark.skipif(not is_riscv_tested(), reason="--configuration riscv runs this")

# As much of Unicorn as is looked at before its version.
FAKE = """
#define STUB(name) int name(void) { return 0; }
unsigned uc_version(unsigned* major, unsigned* minor) { *major = MAJOR; *minor = 0; return 0; }
STUB(uc_open) STUB(uc_close) STUB(uc_mem_map_ptr) STUB(uc_mem_unmap) STUB(uc_reg_write)
STUB(uc_reg_read) STUB(uc_emu_start) STUB(uc_emu_stop) STUB(uc_hook_add) STUB(uc_strerror)
"""


def reason(tmp_path: Path, **settings: str) -> str:
    """Why there is no device."""
    driver = open_driver(Path(tempfile.mkdtemp(dir=tmp_path)), riscv, **settings)
    assert driver.device_count() == 0
    return driver.last_error()


def test_emulators_that_are_none(tmp_path: Path) -> None:
    no_library, source, old = (tmp_path / name for name in ("text.so", "fake.c", "libunicorn.so.2"))
    no_library.write_text("not this")
    source.write_text(FAKE)
    command = ["cc", "-shared", "-fPIC", "-DMAJOR=1", str(source), "-o", str(old)]
    subprocess.run(command, check=True)
    for library, words in (
        ("/nowhere/libunicorn.so.2", "does not exist: `pip install unicorn`"),
        (no_library, "is no shared library"),
        (riscv.library_path(), "has no function uc_version"),
        (old, f"{old} is Unicorn 1.0: "),
    ):
        assert words in reason(tmp_path, OUTBOARD_RISCV_UNICORN=str(library))


def test_no_compiler(tmp_path: Path) -> None:
    said = reason(tmp_path, OUTBOARD_CLANG="/nonexistent/clang")
    assert "could not be started (No such file or directory)" in said
    assert "OUTBOARD_CLANG names another clang" in said
    assert "OUTBOARD_CLANG=none" in reason(tmp_path, OUTBOARD_CLANG="none")


def test_settings(tmp_path: Path) -> None:
    words = "OUTBOARD_RISCV_DEVICES=17 is not a whole number from 1 to 16"
    with pytest.raises(DriverError, match=words):
        open_driver(tmp_path, riscv, OUTBOARD_RISCV_DEVICES="17")
    # More memory than the machine has: pages are taken when they are used.
    settings = {"OUTBOARD_RISCV_MEMORY": str(1 << 36), "OUTBOARD_RISCV_DEVICES": "2"}
    driver = open_driver(Path(tempfile.mkdtemp(dir=tmp_path)), riscv, **settings)
    assert driver.device_properties(1).total_memory == 1 << 36
