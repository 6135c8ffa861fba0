"""Shared by the tests of drivers: the drivers opened in several configurations.

Those are the drivers of this package, or one other: the driver that `--driver` or OUTBOARD_DRIVER
names.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torch_outboard.drivers import contract, faults, host, ocl, riscv, validation
from torch_outboard.drivers.client import Client, DriverError
from torch_outboard.drivers.contract import Status
from torch_outboard.drivers.discovery import SHIPPED_DRIVERS, ask_module, choose_driver

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

# Settings of fault injection for an external driver. It is opened once, where it lies, since its
# library may find other files by its own location.
EXTERNAL_CONFIGURATIONS: dict[str, dict[str, int]] = {
    "external": {"delay_us": 0},
    "external-delayed": {"delay_us": 200},
}


# The headers for drivers that compile by clang.
DIALECT = Path(host.__file__).parents[2] / "dialects" / "clang"

MISSING = "optional function `{}` is missing"


class DriverUnderTest(Client):
    """A client that knows its configuration; `faults` is None without fault injection.

    A test that calls an optional function which the driver lacks is skipped.
    """

    name: str  # "external" for one that is not of this package
    memory: str  # what the environment asked for; "" for the driver's choice
    faults: faults.FaultInjection | None = None

    def __init__(self, driver: contract.Driver) -> None:
        self._queues: dict[int, int] = {}  # devices by queue
        self.skipped = False  # in the middle of a test, which then leaves things behind
        self._binaries: dict[tuple[int, str], bytes] = {}  # by device and source
        self._forget()
        super().__init__(driver)

    def _forget(self) -> None:
        self._made: list[tuple[str, int]] = []  # functions that end what a test made
        self._memory: list[tuple[int, int]] = []  # devices and addresses
        self._gates: list[threading.Event] = []
        self._programs: dict[tuple[int, str], int] = {}  # by device and source

    @property
    def shipped(self) -> bool:
        """Whether it is one of this package, which promises more than the contract."""
        return self.name != "external"

    @functools.cached_property
    def devices(self) -> int:
        """Number of devices."""
        return int(self.device_count())

    @functools.cached_property
    def budget(self) -> int:
        """Bytes that can be allocated on a device at once: all of those of our own drivers."""
        if self.shipped:
            return MEMORY
        properties = self.device_properties(0)
        return min(MEMORY, int(properties.max_allocation or properties.total_memory) // 2)

    def need(self, *names: str) -> None:
        """Skips the test unless the driver has these functions."""
        for name in names:
            if not self.has(name):
                assert name in contract.OPTIONAL, f"required function `{name}` is missing"
                self.skipped = True
                pytest.skip(MISSING.format(name))

    def need_device(self, device: int) -> None:
        """Skips the test if there is no such device."""
        if device >= self.devices:
            self.skipped = True
            pytest.skip(f"the driver has {self.devices} device(s)")

    def status(self, name: str, *arguments: Any) -> Status:
        self.need(name)
        return super().status(name, *arguments)

    def make_queue(self, device: int = 0, priority: int = 0) -> int:
        """A queue that is destroyed after the test."""
        self.need_device(device)
        self._made.append(("queue_destroy", self.queue_create(device, priority)))
        return self._made[-1][1]

    def make_event(self, device: int = 0, timing: bool = False) -> int:
        """An event that is destroyed after the test."""
        self.need_device(device)
        self._made.append(("event_destroy", self.event_create(device, timing)))
        return self._made[-1][1]

    def make_memory(self, size: int, device: int = 0, shareable: bool = False) -> int:
        """Bytes that are allocated until after the test."""
        self.need_device(device)
        self._memory.append((device, self.allocate(device, size, shareable)))
        return self._memory[-1][1]

    def make_kernel(self, source: str, name: str, device: int = 0) -> int:
        """A kernel of a program that is compiled once; it is released after the test."""
        self.need_device(device)
        key = device, source
        if key not in self._programs:
            if self.has("program_load"):
                self._programs[key] = self.program_load(device, self.binary_of(source, device))
            else:
                self._programs[key] = self.program_build(device, source)
        self._made.append(("kernel_release", self.kernel_create(self._programs[key], name)))
        return self._made[-1][1]

    def binary_of(self, source: str, device: int = 0) -> bytes:
        """A program that is compiled once."""
        if (device, source) not in self._binaries:
            program = self.program_build(device, source)
            self._binaries[device, source] = self.program_binary(program)
            self.program_release(program)
        return self._binaries[device, source]

    def gate(self, queue: int) -> threading.Event:
        """Blocks a queue until the returned event is set, at the latest at the end of the test."""
        self.need("host_callback")
        opened = threading.Event()
        self._gates.append(opened)
        self.host_callback(queue, lambda: opened.wait(60))
        return opened

    def let_go(self) -> None:
        """Ends what a test made by the methods above."""
        for opened in self._gates:
            opened.set()
        for device in {device for device, _ in self._memory}:
            self.device_synchronize(device)
        for device, address in self._memory:
            self.deallocate(device, address)
        for program in self._programs.values():
            self.program_release(program)
        for function, handle in reversed(self._made):
            getattr(self, function)(handle)
        self._forget()

    def queue_create(self, device: int, priority: int = 0) -> int:
        queue = super().queue_create(device, priority)
        self._queues[queue] = device
        return queue

    def queue_destroy(self, queue: int) -> None:
        self._queues.pop(queue, None)
        self.call("queue_destroy", queue)

    def device_synchronize(self, device: int) -> None:
        """Waits for a device; if it must be for each queue, as the kit does."""
        if self.has("device_synchronize"):
            self.call("device_synchronize", device)
            return
        for queue, of_device in list(self._queues.items()):
            if of_device == device:
                self.call("queue_synchronize", queue)


def is_riscv_tested() -> bool:
    """Whether the driver `riscv` is tested in place of the others of this package."""
    return os.environ.get("OUTBOARD_DRIVER") == "riscv"


def external_driver() -> str | None:
    """The name or path of a driver that is not of this package, if the tests are to run on one."""
    wanted = os.environ.get("OUTBOARD_DRIVER", "host")
    return None if wanted in SHIPPED_DRIVERS else wanted


def external_table(wanted: str) -> contract.Driver:
    """The table of such a driver.

    Raises:
        ValueError: if there is none.
    """
    choice = choose_driver(wanted)
    if choice.problem is not None:
        raise ValueError(choice.problem)
    try:
        found = ask_module(choice) if choice.must_ask else choice.library or choice.table
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    if isinstance(found, int):
        return contract.Driver.from_address(found)
    assert found is not None
    if not found.is_file():
        raise ValueError(f"{found} is no regular file")
    try:
        return contract.load(str(found))
    except (OSError, AttributeError) as error:
        raise ValueError(str(error)) from error


# Tried in a separate process, since a library may crash or hang when it is loaded.
_TRY = """
import sys
sys.path.insert(0, sys.argv[2])
from driver_support import external_table
from torch_outboard.drivers.client import Client
try:
    client = Client(external_table(sys.argv[1]))
    if client.device_count() < 1:
        raise ValueError(f"it found no device: {client.last_error()}")
except Exception as error:
    print(error)
    sys.exit(1)
"""


def problem_of_external(wanted: str) -> str | None:
    """Why a driver that is not of this package cannot be tested; None if it can."""
    command = [sys.executable, "-c", _TRY, wanted, str(Path(__file__).parent)]
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    try:
        tried = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired:
        return "loading and initializing it did not end within two minutes"
    if tried.returncode < 0:
        return f"loading or initializing it ended the process by signal {-tried.returncode}"
    if tried.returncode > 0:
        return tried.stdout.strip() or tried.stderr.strip()
    return None


@functools.cache
def open_external(wanted: str) -> DriverUnderTest:
    """A driver that is not of this package, wrapped by fault injection and validation."""
    driver = external_table(wanted)
    controls = faults.FaultInjection(faults.library_path())
    with _environment(OUTBOARD_FAULTS="count"):
        driver = contract.wrap(driver, faults.library_path())
        client = DriverUnderTest(contract.wrap(driver, validation.library_path()))
    client.name, client.memory, client.faults = "external", "", controls
    return client


def open_configuration(name: str, folder: Path) -> DriverUnderTest:
    """The driver in one of CONFIGURATIONS or EXTERNAL_CONFIGURATIONS."""
    if name in EXTERNAL_CONFIGURATIONS:
        external = external_driver()
        assert external is not None
        return open_external(external)
    if name in OCL_CONFIGURATIONS:
        return open_driver(folder, ocl, validate=True, **OCL, **OCL_CONFIGURATIONS[name])
    if name in RISCV_CONFIGURATIONS:
        return open_driver(folder, riscv, validate=True, **RISCV_CONFIGURATIONS[name])
    return open_driver(folder, validate=True, **HOST, **HOST_CONFIGURATIONS[name])


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


def assert_bytes(actual: bytes, expected: bytes) -> None:
    """Says where the first difference is; pytest would compare megabytes line by line for hours."""
    if actual == expected:
        return
    pairs = enumerate(zip(actual, expected, strict=False))
    offset = next((i for i, (a, b) in pairs if a != b), min(len(actual), len(expected)))
    pytest.fail(
        f"{len(actual)} bytes for {len(expected)}, different from byte {offset} on: "
        f"{actual[offset : offset + 8]!r} and not {expected[offset : offset + 8]!r}"
    )
