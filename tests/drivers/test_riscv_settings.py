"""What the driver riscv says where something is missing: `--configuration riscv`."""

from __future__ import annotations

import os
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


def test_no_emulator(tmp_path: Path) -> None:
    said = reason(tmp_path, OUTBOARD_RISCV_UNICORN="/nonexistent/libunicorn.so.2")
    assert said.startswith("/nonexistent/libunicorn.so.2 does not exist: `pip install unicorn`")


def test_a_file_that_is_no_emulator(tmp_path: Path) -> None:
    text = tmp_path / "libunicorn.so.2"
    text.write_text("not this")
    assert "is no shared library" in reason(tmp_path, OUTBOARD_RISCV_UNICORN=str(text))
    assert "has no function uc_version" in reason(
        tmp_path, OUTBOARD_RISCV_UNICORN=riscv.library_path()
    )


def test_an_emulator_of_another_version(tmp_path: Path) -> None:
    source, library = tmp_path / "fake.c", tmp_path / "libunicorn.so.2"
    source.write_text(FAKE)
    command = ["cc", "-shared", "-fPIC", "-DMAJOR=1", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    said = reason(tmp_path, OUTBOARD_RISCV_UNICORN=str(library))
    assert f"{library} is Unicorn 1.0: " in said


def test_no_compiler(tmp_path: Path) -> None:
    said = reason(tmp_path, OUTBOARD_CLANG="/nonexistent/clang")
    assert "could not be started (No such file or directory)" in said
    assert "OUTBOARD_CLANG names another clang" in said
    assert "OUTBOARD_CLANG=none" in reason(tmp_path, OUTBOARD_CLANG="none")


def test_a_compiler_that_does_not_know_the_processor(tmp_path: Path) -> None:
    """Nothing is compiled before a program is built: that says what is wrong."""
    script = tmp_path / "clang"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo clang version 19.0.0; exit; fi\n'
        "echo \"error: unknown target triple 'riscv64-unknown-elf'\" >&2; exit 1\n"
    )
    script.chmod(0o755)
    driver = open_driver(tmp_path, riscv, OUTBOARD_CLANG=str(script))
    with pytest.raises(DriverError, match="unknown target triple"):
        driver.program_build(0, "__kernel void f() {}")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("OUTBOARD_RISCV_DEVICES", "0"),
        ("OUTBOARD_RISCV_DEVICES", "17"),
        ("OUTBOARD_RISCV_MEMORY", "-4096"),
        ("OUTBOARD_RISCV_MEMORY", "lots"),
        ("OUTBOARD_RISCV_TIME_LIMIT", "0"),
        ("OUTBOARD_RISCV_TIME_LIMIT", "99999999999999999999999"),
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, setting: str, value: str) -> None:
    with pytest.raises(DriverError, match=f"{setting}={value} is not a whole number from 1 to "):
        open_driver(tmp_path, riscv, **{setting: value})


def test_more_memory_than_there_are_addresses(tmp_path: Path) -> None:
    if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >= 1 << 41:
        pytest.skip("this machine has that much")
    settings = {"OUTBOARD_RISCV_MEMORY": str(1 << 36), "OUTBOARD_RISCV_DEVICES": "2"}
    driver = open_driver(tmp_path, riscv, **settings)  # pages are taken when they are used
    assert driver.device_properties(1).total_memory == 1 << 36
