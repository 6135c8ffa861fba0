"""Shared by the tests of drivers: the drivers of this package in several configurations."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from torch_outboard.check.outcome import NotOffered, NotTestable
from torch_outboard.check.session import Session
from torch_outboard.drivers import contract, faults, host, ocl, riscv, validation
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

MEMORY = 64 << 20  # bytes of each device

HOST = {"OUTBOARD_HOST_DEVICES": "2", "OUTBOARD_HOST_MEMORY": str(MEMORY)}
HOST_CONFIGURATIONS: dict[str, dict[str, str]] = {
    "shared": {"OUTBOARD_HOST_ACCESS": "shared"},
    "separate-faults": {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_FAULTS": "delay_us=200"},
}

# Two devices, which are the first of this machine twice.
OCL = {
    "OUTBOARD_OCL_DEVICES": "0",
    "OUTBOARD_OCL_COPIES": "2",
    "OUTBOARD_OCL_MEMORY_BYTES": str(MEMORY),
}
# Fault injection that injects none finds what is not released. Late events are those of devices
# for which they cost time; coarse-grained memory differs from shared in a flag of allocations.
OCL_CONFIGURATIONS: dict[str, dict[str, str]] = {
    "ocl-shared": {"OUTBOARD_OCL_MEMORY": "shared", "OUTBOARD_FAULTS": "count"},
    "ocl-handles": {
        "OUTBOARD_OCL_MEMORY": "handles",
        "OUTBOARD_OCL_EVENTS": "late",
        "OUTBOARD_FAULTS": "count",
    },
}

# Only where OUTBOARD_DRIVER is `riscv`: they need packages that few machines have.
RISCV_CONFIGURATIONS: dict[str, dict[str, str]] = {
    name: {
        "OUTBOARD_RISCV_DEVICES": "2",
        "OUTBOARD_RISCV_MEMORY": str(MEMORY),
        "OUTBOARD_FAULTS": settings,
    }
    for name, settings in {"riscv": "count", "riscv-faults": "delay_us=200"}.items()
}

CONFIGURATIONS = HOST_CONFIGURATIONS | OCL_CONFIGURATIONS

# The headers for drivers that compile by clang.
DIALECT = Path(host.__file__).parents[2] / "dialects" / "clang"


class DriverUnderTest(Session):
    """A driver of this package that knows its configuration.

    A test that needs a function or a device which the driver lacks is skipped.

    Attributes:
        name: that of the driver.
        configuration: a name of `CONFIGURATIONS` or `RISCV_CONFIGURATIONS`, else "".
        memory: what the environment asked for; "" for the driver's choice.
        faults: None without fault injection.
        skipped: whether a test ended in the middle, and left things behind.
    """

    name: str
    configuration: str = ""
    memory: str
    faults: faults.FaultInjection | None = None
    skipped = False

    def need(self, *names: str) -> None:
        self._skip_unless(super().need, *names)

    def need_devices(self, count: int) -> None:
        self._skip_unless(super().need_devices, count)

    def _skip_unless(self, need: Callable[..., None], *arguments: object) -> None:
        try:
            need(*arguments)
        except (NotOffered, NotTestable) as error:
            self.skipped = True
            pytest.skip(str(error))


def is_riscv_tested() -> bool:
    """Whether the driver `riscv` is tested in place of the others of this package."""
    return os.environ.get("OUTBOARD_DRIVER") == "riscv"


def open_configuration(name: str, folder: Path) -> DriverUnderTest:
    """The driver in one of CONFIGURATIONS or RISCV_CONFIGURATIONS."""
    if name in OCL_CONFIGURATIONS:
        module, settings = ocl, OCL | OCL_CONFIGURATIONS[name]
    elif name in RISCV_CONFIGURATIONS:
        module, settings = riscv, RISCV_CONFIGURATIONS[name]
    else:
        module, settings = host, HOST | HOST_CONFIGURATIONS[name]
    driver = open_driver(folder, module, validate=True, **settings)
    driver.configuration = name
    return driver


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    saved = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@functools.cache
def reason_without_opencl(memory: str = "") -> str | None:
    """Why the tests of `ocl` cannot run here, with this kind of memory; None if they can."""
    command = "from torch_outboard.drivers import ocl; print(ocl.describe())"
    settings = OCL | ({"OUTBOARD_OCL_MEMORY": memory} if memory else {})
    found = subprocess.run(
        [sys.executable, "-c", command], env=os.environ | settings, capture_output=True, text=True
    )
    if "device 0" in found.stdout:
        return None
    return f"no OpenCL device on this machine: {found.stdout.strip() or found.stderr.strip()}"


def needs_opencl(version: str = "", reason: str = "") -> list[pytest.MarkDecorator]:
    """Marks of tests of `ocl` that run where a device's version contains this string.

    They are looked at when a test is about to run (conftest.py): to ask OpenCL takes a second.
    """
    return [pytest.mark.ocl_only, pytest.mark.opencl(version, reason)]


def needs_pocl() -> list[pytest.MarkDecorator]:
    return needs_opencl("Portable Computing Language", "there is no PoCL here")


@functools.cache
def reason_without_clang() -> str | None:
    """Why the tests of kernels of `host` cannot run here; None if they can."""
    found = host.describe()
    return found if found.startswith("no kernels") else None


def open_driver(
    folder: Path, module: ModuleType = host, /, validate: bool = False, **environment: str
) -> DriverUnderTest:
    """Loads copies of the libraries and initializes them under these environment variables.

    With OUTBOARD_FAULTS among them (it may be empty) the driver is wrapped by fault injection.

    Args:
        folder: where the copies are written.
        module: the driver's module.
        validate: whether validation wraps the driver, outside fault injection. Its probe before the
            first allocation changes counts of calls.
        environment: variables by name.
    """
    path = shutil.copy(module.library_path(), folder)
    driver = contract.load(path)
    environment = {"OUTBOARD_CLANG_DIALECT": str(DIALECT), **environment}  # not beside the copy
    controls = None
    with _environment(**environment):
        if "OUTBOARD_FAULTS" in environment:
            layer = shutil.copy(faults.library_path(), folder)
            controls = faults.FaultInjection(layer)
            driver = contract.wrap(driver, layer)
        if validate:
            driver = contract.wrap(driver, shutil.copy(validation.library_path(), folder))
        client = DriverUnderTest(driver)
    client.name = module.__name__.rpartition(".")[2]
    client.memory = environment.get("OUTBOARD_OCL_MEMORY", "")
    client.faults = controls
    return client


def describe_alone(library: str | Path, function: str, environment: dict[str, str]) -> str:
    """The devices that a library finds in a process that loaded nothing else."""
    code = f"""
import ctypes
library = ctypes.CDLL({str(library)!r})
library.{function}.restype = ctypes.c_char_p
print(library.{function}().decode())
"""
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.check_output(command, text=True, env=environment)


@contextlib.contextmanager
def fails_with(
    status: Status, words: str | None = None
) -> Iterator[pytest.ExceptionInfo[DriverError]]:
    """A call in the scope fails, with this status, and a message with these words."""
    with pytest.raises(DriverError, match=words) as error:
        yield error
    assert error.value.status == status
