"""Placements of the driver `host` when its compiler fails: `auto` goes on, `device` raises."""

from pathlib import Path

import pytest

from tests.support import run_python

SCRIPT = """\
#!/bin/sh
echo "$*" >> "$0.log"
case "$*" in
  *--version*) echo "clang version 22.1.8" ;;
  *) echo "no.cl:1:1: error: out of luck"; exit 1 ;;
esac
"""
USE = """
    import os, warnings, torch
    from torch_outboard import placement
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.ones(3, device="host")
        for _ in range(3):
            print((x + x).tolist())
        for warning in caught:
            if "compiler" in str(warning.message):
                print(str(warning.message).partition("; ")[0])
    with open(os.environ["OUTBOARD_CLANG"] + ".log") as log:
        print(any("--version" not in line for line in log))
    with placement.use("device"):
        try:
            x + x
        except RuntimeError as error:
            print(str(error).partition("; ")[0])
"""

REFUSED = "device kernels were asked for by the placement 'device', and the compiler"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    compiler = tmp_path / "clang"
    compiler.write_text(SCRIPT)
    compiler.chmod(0o755)
    return {
        "OUTBOARD_DRIVER": "host",
        "OUTBOARD_CLANG": str(compiler),
        "OUTBOARD_HOST_ACCESS": "separate",
        "OUTBOARD_CACHE_DIR": "",
        "OUTBOARD_FALLBACK_COPIED": "allow",
    }


def test_auto_goes_on_and_says_it_once_and_device_raises(settings):
    lines = run_python(USE, OUTBOARD_PLACEMENT="auto", **settings).splitlines()
    *results, warning, compiled, error = lines
    assert results == ["[2.0, 2.0, 2.0]"] * 3
    assert "the compiler of host:0 (Host device (separate memory)) fails on a kernel" in warning
    assert "so all operators run on the host" in warning
    assert "out of luck" in warning
    assert compiled == "True"
    assert error.startswith(REFUSED)
    assert "out of luck" in error


def test_auto_compiles_nothing_where_memory_is_shared(settings):
    shared = settings | {"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_PLACEMENT": "auto"}
    *results, compiled, error = run_python(USE, **shared).splitlines()
    assert results == ["[2.0, 2.0, 2.0]"] * 3  # and no warning
    assert compiled == "False"
    assert error.startswith(REFUSED)
