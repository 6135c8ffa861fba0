"""Runs an example as its first lines say, in the usual configurations."""

import fcntl
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.conftest import CONFIGURATIONS
from tests.support import ROOT, SLOWNESS, environment_without

# Where torch.utils.cpp_extension compiles; cached, so that nothing is compiled twice.
EXTENSIONS = ROOT / "build" / "extensions"

CONFIGURATIONS_OF_EXAMPLES = ("shared", "separate", "ocl")
everywhere = pytest.mark.parametrize("configuration", CONFIGURATIONS_OF_EXAMPLES)

# Programs with a library that is loaded before the kit, after it, after its first use, or then in
# a block that registers. Their source continues where the library, `device` and `x` are there.
IN_ORDER = """
import copy, io, sys
import torch
from torch.utils.cpp_extension import load

name, source, order = sys.argv[1:]
if order != "before":
    import torch_outboard
    device = torch_outboard.device_name()
if order in ("late", "registering"):
    {use}
if order == "registering":
    with torch_outboard.registering():
        load(name, [source], is_python_module=False)
else:
    load(name, [source], is_python_module=False)
import torch_outboard

torch_outboard.fallback.set_policy(copied="allow")
device = torch_outboard.device_name()
x = torch.tensor([-1.0, 2.0]).to(device)
"""


def environment(configuration: str, **more: str) -> dict[str, str]:
    """This process's environment, with the settings of another configuration."""
    settings = {**CONFIGURATIONS[configuration], "TORCH_EXTENSIONS_DIR": str(EXTENSIONS), **more}
    return environment_without("OUTBOARD_") | settings


@functools.cache
def has_devices(configuration: str) -> bool:
    code = (
        "import torch, torch_outboard as t;"
        "print(torch.get_device_module(t.device_name()).device_count())"
    )
    command = [sys.executable, "-P", "-c", code]
    env = environment(configuration)
    return int(subprocess.check_output(command, env=env, text=True)) > 0


@contextmanager
def compiling() -> Iterator[None]:
    """One process at a time compiles: others wait for what it leaves behind."""
    EXTENSIONS.mkdir(parents=True, exist_ok=True)
    with (EXTENSIONS / ".one-at-a-time").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # A compilation that was interrupted left its lock, for which PyTorch would wait forever.
        for left in EXTENSIONS.glob("*/lock"):
            left.unlink()
        yield


def source_file(name: str, source: str) -> Path:
    """A source of a test, in a separate file that changes only if the source does."""
    path = EXTENSIONS / "sources" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != source:
        path.write_text(source)
    return path


def run(
    script: Path, configuration: str | None, *arguments: str, timeout: float = 280, **env: str
) -> str:
    """Runs a script and returns what it printed.

    Args:
        script: its path.
        configuration: "shared", "separate", "ocl": see tests/conftest.py; None for that of this
            process.
        arguments: of the script.
        timeout: seconds, times `SLOWNESS`.
        env: further environment variables.

    Raises:
        AssertionError: if it exits with another status than 0, with its output.
    """
    if configuration is not None and not has_devices(configuration):
        pytest.skip(f"this machine has no device for the configuration {configuration}")
    compiles = "cpp_extension" in script.read_text()
    with compiling() if compiles else nullcontext():
        result = subprocess.run(
            [sys.executable, str(script), *arguments],
            env=environment(configuration, **env) if configuration else {**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=timeout * SLOWNESS,
            check=False,
        )
    printed = result.stdout + result.stderr
    assert result.returncode == 0, f"exit status {result.returncode}\n{printed}"
    return result.stdout


def run_in_order(
    order: str,
    configuration: str,
    name: str,
    source: Path,
    checks: str,
    use: str = "torch.ones(2, device=device).add(1)",
    **env: str,
) -> list[str]:
    """The lines that a program prints which loads the library of `source`.

    Args:
        order: "before", "after", "late" or "registering": see `IN_ORDER`.
        configuration: as of `run`.
        name: of the library; that of an example, so that it is compiled once.
        source: of the library.
        checks: what the program does then.
        use: how the device is used before.
        env: further environment variables.
    """
    script = source_file(f"{name}_orders.py", IN_ORDER.format(use=use) + checks)
    if order == "before":
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return run(script, configuration, name, str(source), order, **env).splitlines()
