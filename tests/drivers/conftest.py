"""Drivers at the level of their table; most tests run on each configuration of each driver.

PyTorch takes no part. Each configuration has copies of the libraries to itself, since a library is
one driver and is initialized once. `python -m torch_outboard check` runs the checks of
test_checks.py on any other driver.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_support import (
    CONFIGURATIONS,
    HOST_CONFIGURATIONS,
    OCL_CONFIGURATIONS,
    RISCV_CONFIGURATIONS,
    DriverUnderTest,
    is_riscv_tested,
    open_configuration,
    open_driver,
    reason_without_opencl,
)

from torch_outboard.drivers import ocl

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is no test of `riscv` where that is tested."""
    if not is_riscv_tested():
        return
    chosen = [item for item in items if FOLDER not in item.path.parents or _is_of_riscv(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def _is_of_riscv(item: pytest.Item) -> bool:
    if "configured" not in getattr(item, "fixturenames", ()):
        return item.path.name.startswith("test_riscv_")
    return not any(item.get_closest_marker(name) for name in ("ocl_only", "host_only"))


@pytest.hookimpl(tryfirst=True)  # before fixtures open drivers
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("opencl"):
        version, reason = mark.args or ("", "")
        if missing := reason_without_opencl():
            pytest.skip(missing)
        if version not in ocl.describe():
            pytest.skip(reason)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Marks `host_only` and `ocl_only` limit the configurations of a test.

    `host_only(once=True)` is for what shared memory and delays cannot change.
    """
    if "configured" not in metafunc.fixturenames:
        return
    names = list(CONFIGURATIONS)
    if is_riscv_tested():
        names = list(RISCV_CONFIGURATIONS)
    elif host_only := metafunc.definition.get_closest_marker("host_only"):
        names = list(HOST_CONFIGURATIONS)[: 1 if host_only.kwargs.get("once") else None]
    elif metafunc.definition.get_closest_marker("ocl_only"):
        names = list(OCL_CONFIGURATIONS)
    metafunc.parametrize("configured", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def configured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> DriverUnderTest:
    if request.param in OCL_CONFIGURATIONS:
        memory = OCL_CONFIGURATIONS[request.param]["OUTBOARD_OCL_MEMORY"]
        if reason := reason_without_opencl(memory):
            pytest.skip(reason)
    return open_configuration(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def driver(configured: DriverUnderTest) -> Iterator[DriverUnderTest]:
    """The driver under test; afterwards nothing that a test made may be left."""
    controls = configured.faults
    before = controls.live() if controls is not None else None
    configured.skipped = False
    yield configured
    configured.let_go()
    if controls is not None and not configured.skipped:
        assert controls.live() == before, controls.leaks()


@pytest.fixture
def faulty(tmp_path: Path) -> DriverUnderTest:
    """A fresh host driver in separate memory, wrapped by fault injection that injects none."""
    return open_driver(tmp_path, OUTBOARD_HOST_ACCESS="separate", OUTBOARD_FAULTS="count")


@pytest.fixture
def queue(driver: DriverUnderTest) -> int:
    """A queue of device 0."""
    return driver.make_queue()
