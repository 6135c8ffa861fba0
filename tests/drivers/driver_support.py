"""What the tests of drivers share: the drivers opened in several configurations."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from torch_outboard.drivers import contract, host, ocl, torture
from torch_outboard.drivers.client import Client

MEMORY = 64 << 20  # bytes of each device

HOST = {"OUTBOARD_HOST_DEVICES": "2", "OUTBOARD_HOST_MEMORY": str(MEMORY)}
HOST_CONFIGURATIONS: dict[str, dict[str, str]] = {
    "shared": {"OUTBOARD_HOST_ACCESS": "shared"},
    "separate": {"OUTBOARD_HOST_ACCESS": "separate"},
    "shared-torture": {"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_TORTURE": "delay_us=200"},
    "separate-torture": {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_TORTURE": "delay_us=200"},
}

# Two devices, which are the first of this machine twice.
OCL = {
    "OUTBOARD_OCL_DEVICES": "0",
    "OUTBOARD_OCL_COPIES": "2",
    "OUTBOARD_OCL_MEMORY_BYTES": str(MEMORY),
}
# Torture without faults finds what is not given back.
OCL_CONFIGURATIONS: dict[str, dict[str, str]] = {
    f"ocl-{memory}": {"OUTBOARD_OCL_MEMORY": memory, "OUTBOARD_TORTURE": "count"}
    for memory in ("shared", "coarse", "handles")
}

CONFIGURATIONS = HOST_CONFIGURATIONS | OCL_CONFIGURATIONS


class DriverUnderTest(Client):
    """A client that knows its configuration; `torture` is None without the torture driver."""

    name: str
    memory: str  # what the environment asked for; "" for the driver's choice
    torture: torture.Torture | None = None


def open_configuration(name: str, folder: Path) -> DriverUnderTest:
    """The driver in one of CONFIGURATIONS."""
    if name in OCL_CONFIGURATIONS:
        return open_driver(folder, ocl, **OCL, **OCL_CONFIGURATIONS[name])
    return open_driver(folder, **HOST, **HOST_CONFIGURATIONS[name])


@functools.cache
def reason_without_opencl() -> str | None:
    """Why the tests of `ocl` cannot run here; None if they can."""
    command = "from torch_outboard.drivers import ocl; print(ocl.describe())"
    found = subprocess.run(
        [sys.executable, "-c", command], env=os.environ | OCL, capture_output=True, text=True
    )
    if "device 0" in found.stdout:
        return None
    return f"no OpenCL device on this machine: {found.stdout.strip() or found.stderr.strip()}"


def open_driver(folder: Path, module: ModuleType = host, /, **environment: str) -> DriverUnderTest:
    """Loads copies of the libraries and initializes them under these environment variables.

    With OUTBOARD_TORTURE among them (it may be empty) the driver is wrapped.
    """
    path = shutil.copy(module.library_path(), folder)
    driver = contract.load(path)
    controls = None
    saved = dict(os.environ)
    os.environ.update(environment)
    try:
        if "OUTBOARD_TORTURE" in environment:
            controls = torture.Torture(shutil.copy(torture.library_path(), folder))
            table = controls.library.ob_torture_wrap(ctypes.addressof(driver))
            driver = contract.Driver.from_address(table)
        client = DriverUnderTest(driver)
    finally:
        os.environ.clear()
        os.environ.update(saved)
    client.name = module.__name__.rpartition(".")[2]
    client.memory = environment.get("OUTBOARD_OCL_MEMORY", "")
    client.torture = controls
    return client
