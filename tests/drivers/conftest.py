"""Drivers at the level of their table; most tests run on each configuration of each driver.

PyTorch takes no part. Each configuration has copies of the libraries to itself, since a library is
one driver and is initialized once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver_support import (
    CONFIGURATIONS,
    HOST_CONFIGURATIONS,
    OCL_CONFIGURATIONS,
    DriverUnderTest,
    open_configuration,
    open_driver,
    reason_without_opencl,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Marks `host_only` and `ocl_only` limit the configurations of a test."""
    if "configured" not in metafunc.fixturenames:
        return
    names = CONFIGURATIONS
    if metafunc.definition.get_closest_marker("host_only"):
        names = HOST_CONFIGURATIONS
    elif metafunc.definition.get_closest_marker("ocl_only"):
        names = OCL_CONFIGURATIONS
    metafunc.parametrize("configured", list(names), indirect=True, scope="session")


@pytest.fixture(scope="session")
def configured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> DriverUnderTest:
    if request.param in OCL_CONFIGURATIONS and (reason := reason_without_opencl()):
        pytest.skip(reason)
    return open_configuration(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def driver(configured: DriverUnderTest) -> Iterator[DriverUnderTest]:
    """The driver under test; afterwards nothing that a test made may be left."""
    controls = configured.torture
    before = controls.live() if controls is not None else None
    yield configured
    if controls is not None:
        assert controls.live() == before, controls.leaks()


@pytest.fixture
def tortured(tmp_path: Path) -> DriverUnderTest:
    """A fresh host driver in separate memory, wrapped by torture without faults."""
    return open_driver(tmp_path, OUTBOARD_HOST_ACCESS="separate", OUTBOARD_TORTURE="count")


@pytest.fixture
def make_queue(driver: DriverUnderTest) -> Iterator[Callable[..., int]]:
    """Creates queues (device, priority) that are destroyed after the test."""
    made: list[int] = []

    def make(device: int = 0, priority: int = 0) -> int:
        made.append(driver.queue_create(device, priority))
        return made[-1]

    yield make
    for queue in made:
        driver.queue_destroy(queue)


@pytest.fixture
def queue(make_queue: Callable[..., int]) -> int:
    """A queue of device 0."""
    return make_queue()


@pytest.fixture
def make_event(driver: DriverUnderTest) -> Iterator[Callable[..., int]]:
    """Creates events (device, timing) that are destroyed after the test."""
    made: list[int] = []

    def make(device: int = 0, timing: bool = False) -> int:
        made.append(driver.event_create(device, timing))
        return made[-1]

    yield make
    for event in made:
        driver.event_destroy(event)


@pytest.fixture
def make_memory(driver: DriverUnderTest) -> Iterator[Callable[..., int]]:
    """Allocates (bytes, device) until after the test."""
    made: list[tuple[int, int]] = []

    def make(size: int, device: int = 0) -> int:
        made.append((device, driver.allocate(device, size)))
        return made[-1][1]

    yield make
    for device in {device for device, _ in made}:
        driver.device_synchronize(device)
    for device, address in made:
        driver.deallocate(device, address)


@pytest.fixture
def gate(driver: DriverUnderTest) -> Iterator[Callable[[int], threading.Event]]:
    """Blocks a queue until the returned event is set, at the latest at the end of the test."""
    gates: list[threading.Event] = []

    def block(queue: int) -> threading.Event:
        gates.append(threading.Event())
        opened = gates[-1]
        driver.host_callback(queue, lambda: opened.wait(60))
        return opened

    yield block
    for opened in gates:
        opened.set()
