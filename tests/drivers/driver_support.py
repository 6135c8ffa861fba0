"""What the tests of drivers share: host drivers opened in several configurations."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

from torch_outboard.drivers import contract, host, torture
from torch_outboard.drivers.client import Client

MEMORY = 64 << 20  # bytes of each device

HOST_CONFIGURATIONS: dict[str, dict[str, str]] = {
    "shared": {"OUTBOARD_HOST_ACCESS": "shared"},
    "separate": {"OUTBOARD_HOST_ACCESS": "separate"},
    "shared-torture": {"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_TORTURE": "delay_us=200"},
    "separate-torture": {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_TORTURE": "delay_us=200"},
}


class DriverUnderTest(Client):
    """A client that knows its configuration; `torture` is None without the torture driver."""

    torture: torture.Torture | None = None


def open_driver(folder: Path, **environment: str) -> DriverUnderTest:
    """Loads copies of the libraries and initializes them under these environment variables.

    With OUTBOARD_TORTURE among them (it may be empty) the driver is wrapped.
    """
    path = shutil.copy(host.library_path(), folder)
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
    client.torture = controls
    return client
