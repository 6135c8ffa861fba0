"""Drivers at the level of their table; most tests run on each configuration of each driver.

PyTorch takes no part. Each configuration has copies of the libraries to itself, since a library is
one driver and is initialized once.

With `--driver` or OUTBOARD_DRIVER, a driver that is not of this package is tested in place of them:
all that the contract promises, without the tests that ask the drivers of this package for more.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_support import (
    CONFIGURATIONS,
    EXTERNAL_CONFIGURATIONS,
    HOST_CONFIGURATIONS,
    MISSING,
    OCL_CONFIGURATIONS,
    RISCV_CONFIGURATIONS,
    DriverUnderTest,
    external_driver,
    is_riscv_tested,
    open_configuration,
    open_driver,
    open_external,
    problem_of_external,
    reason_without_opencl,
)

from torch_outboard.drivers import ocl

FOLDER = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """A driver that cannot be opened ends the run at once."""
    external = external_driver()
    if external is None or hasattr(config, "workerinput"):
        return
    if problem := problem_of_external(external):
        raise pytest.UsageError(f"driver {external} cannot be tested: {problem}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is no test of the driver that was named."""
    if is_riscv_tested():
        wanted = _is_of_riscv
    elif external_driver() is not None:
        wanted = _is_of_any_driver
    else:
        return
    chosen = [item for item in items if FOLDER not in item.path.parents or wanted(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def _is_of_any_driver(item: pytest.Item) -> bool:
    if "configured" not in getattr(item, "fixturenames", ()):
        return False
    host_only = item.get_closest_marker("host_only")
    if host_only is not None and not host_only.kwargs.get("unless_external"):
        return False
    return not any(item.get_closest_marker(name) for name in ("ocl_only", "shipped_only"))


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Optional functions that the driver lacks, with the number of tests skipped for each."""
    external = external_driver()
    if external is None:
        return
    pattern = re.compile(MISSING.format(r"(\w+)"))
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    missing = Counter(found[1] for text in reasons if (found := pattern.search(text)))
    terminalreporter.section("driver")
    terminalreporter.line(
        f"{external}: {len(terminalreporter.stats.get('passed', []))} tests passed"
    )
    for name, count in sorted(missing.items()):
        terminalreporter.line(f"without optional function {name}: {count} tests skipped")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Marks `host_only` and `ocl_only` limit the configurations of a test.

    `host_only(once=True)` is for what shared memory and delays cannot change.
    """
    if "configured" not in metafunc.fixturenames:
        return
    names = list(CONFIGURATIONS)
    if (external := external_driver()) is not None:
        names = list(EXTERNAL_CONFIGURATIONS)
        if not open_external(external).has("host_callback"):
            names.remove("external-delayed")  # that is how fault injection delays work
    elif is_riscv_tested():
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
def driver(
    configured: DriverUnderTest, request: pytest.FixtureRequest
) -> Iterator[DriverUnderTest]:
    """The driver under test; afterwards nothing that a test made may be left."""
    controls = configured.faults
    if settings := EXTERNAL_CONFIGURATIONS.get(request.node.callspec.params["configured"]):
        assert controls is not None
        controls.configure(**settings)
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
