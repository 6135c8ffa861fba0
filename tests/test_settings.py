"""Environment variables that look like settings and are none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import run_python, try_python
from torch_outboard import settings

ROOT = Path(__file__).resolve().parents[1]
USE = "import torch, torch_outboard; torch.ones(2, device=torch_outboard.device_name())"


def test_the_table_holds_what_the_sources_read():
    """The quoted names in the sources of the kit and of its drivers."""
    read = set()
    for folder in ("csrc", "torch_outboard"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".c", ".cpp", ".h") and file.name != "settings.py":
                read |= set(re.findall(r'"(OUTBOARD_[A-Z0-9_]*[A-Z0-9])"', file.read_text()))
    assert read == settings.KNOWN


def test_every_setting_is_described():
    texts = "".join(file.read_text() for file in (ROOT / "README.md", ROOT / "docs" / "testing.md"))
    assert {name for name in settings.KNOWN if f"`{name}`" not in texts} == set()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("OUTBOARD_DRIVRE", "OUTBOARD_DRIVER"),
        ("OUTBOARD_OCL_DEVICE", "OUTBOARD_OCL_DEVICES"),
        ("OUTBOARD_HOST_ACESS", "OUTBOARD_HOST_ACCESS"),
        ("OUTBOARD_FALLBACK_COPY", "OUTBOARD_FALLBACK_COPIED"),
    ],
)
def test_a_misspelt_variable_is_named_once(variable, meant):
    result = try_python(USE, **{variable: "1"}, PYTHONWARNINGS="always")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(f"{variable} (did you mean {meant}?)") == 1


def test_what_resembles_nothing_is_named_alone():
    result = try_python(USE, OUTBOARD_XYZZY_PLUGH="1")
    assert "OUTBOARD_XYZZY_PLUGH is no setting" in result.stderr


def test_known_variables_are_no_matter(tmp_path):
    result = try_python(USE, OUTBOARD_CACHE_DIR=str(tmp_path), OUTBOARD_BLOCKING="0")
    assert result.returncode == 0, result.stderr
    assert "no setting" not in result.stderr


def test_where_warnings_are_errors_the_first_use_raises_and_not_the_import():
    code = """
        import torch
        import torch_outboard
        try:
            torch.ones(2, device=torch_outboard.device_name())
        except ValueError as error:
            print(error)
    """
    printed = run_python(code, OUTBOARD_WYA="host", PYTHONWARNINGS="error::UserWarning")
    assert "OUTBOARD_WYA (did you mean OUTBOARD_WAY?)" in printed


def test_drivers_have_settings_of_their_own(tmp_path):
    """All that begin with the name of a driver, unless its module says which."""
    code = """
        import os, sys
        sys.path.insert(0, sys.argv[1])
        from torch_outboard import settings
        for name in ("CHIP_SPEED", "CHIP_SPED", "CHAP_A"):
            os.environ["OUTBOARD_" + name] = "1"
        print(settings.unknown("chip"))
        print(settings.unknown("chip", "open_chip"))
        names = settings.unknown("chip", "chip_driver")
        print(names)
        print(settings.words_about(names, "chip_driver"))
    """
    (tmp_path / "open_chip.py").write_text("")
    (tmp_path / "chip_driver.py").write_text("SETTINGS = ('OUTBOARD_CHIP_SPEED',)\n")
    lines = run_python(code, str(tmp_path)).splitlines()
    assert lines[0] == lines[1] == "['OUTBOARD_CHAP_A']"
    assert lines[2] == "['OUTBOARD_CHAP_A', 'OUTBOARD_CHIP_SPED']"
    assert "OUTBOARD_CHIP_SPED (did you mean OUTBOARD_CHIP_SPEED?)" in lines[3]


def test_the_check_is_cheap():
    """Without an unknown variable, nothing is imported for it that was not there."""
    printed = run_python("""
        import sys
        from torch_outboard import settings
        print("difflib" in sys.modules, "importlib.metadata" in sys.modules)
        before = set(sys.modules)
        assert settings.unknown("ocl") == []
        print(set(sys.modules) - before)
    """)
    assert printed.splitlines()[1] == "set()"
