"""Ways of the driver `host` when its compiler fails: `auto` goes on, `device` raises."""

from __future__ import annotations

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
    import warnings, torch
    from torch_outboard import ways
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.ones(3, device="host")
        for _ in range(3):
            print((x + x).tolist())
        for warning in caught:
            if "compiler" in str(warning.message):
                print(str(warning.message).partition("; ")[0])
    with ways.way("device"):
        try:
            x + x
        except RuntimeError as error:
            print(str(error).partition("; ")[0])
"""


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


def test_auto_goes_on_and_says_it_once_and_the_way_device_raises(settings):
    *results, warning, error = run_python(USE, OUTBOARD_WAY="auto", **settings).splitlines()
    assert results == ["[2.0, 2.0, 2.0]"] * 3
    assert "the compiler of host:0 (Host device (separate memory)) fails on a kernel" in warning
    assert "so all operators run on the host" in warning
    assert error.startswith("device kernels were asked for by the way 'device', and the compiler")
    assert "out of luck" in warning
    assert "out of luck" in error


BEGIN_ON_HOST = """
    import os, warnings, torch
    import torch_outboard
    from torch_outboard import _C

    def commands():
        return sum("--version" not in line for line in open(os.environ["OUTBOARD_CLANG"] + ".log"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.ones(1 << 16, device="host")
        print((x + x)[0].item(), commands())
        table = _C.way_savings(0)
        _C.set_way_savings(0, {name: [-10**7] * len(row) for name, row in table.items()})
        for _ in range(4):
            print((x + x)[0].item(), commands() > 0)
    print(sum("all operators run on the host" in str(w.message) for w in caught))
"""


def test_a_program_that_begins_on_the_host_asks_for_its_first_device_kernel(settings):
    """Where memory is shared, `auto` compiles nothing until it gives the device a call."""
    shared = settings | {"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_WAY": "auto"}
    first, *results, said = run_python(BEGIN_ON_HOST, **shared).splitlines()
    assert first == "2.0 0"
    assert results[-1] == "2.0 True"
    assert said == "1"
