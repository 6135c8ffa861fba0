"""Fixtures and options of the whole suite.

The suite runs on whatever device the environment says: OUTBOARD_DRIVER, OUTBOARD_HOST_ACCESS,
OUTBOARD_FAULTS and so on are set by the caller of pytest, and subprocesses inherit them.
`--configuration` sets the usual ones.
"""

import argparse
import os

import platformdirs
import pytest

from tests.turns import is_its_turn, turn

# The driver that the tests are written for where they ask for none in particular.
HOST = {"OUTBOARD_DRIVER": "host", "OUTBOARD_CLANG": "none"}
# Environment variables that `--configuration` sets unless they are set already.
CONFIGURATIONS: dict[str, dict[str, str]] = {
    "environment": HOST,
    "shared": {**HOST, "OUTBOARD_HOST_ACCESS": "shared"},
    "separate": {**HOST, "OUTBOARD_HOST_ACCESS": "separate"},
    "faults": {**HOST, "OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_FAULTS": "delay_us=200"},
    "ocl": {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_PLACEMENT": "device"},
    "riscv": {"OUTBOARD_DRIVER": "riscv", "OUTBOARD_PLACEMENT": "device"},
    # Kernels of the driver `host`, by whatever clang there is.
    "clang": {"OUTBOARD_DRIVER": "host", "OUTBOARD_PLACEMENT": "device"},
    # `ocl` with the kernels that GPUs get (tests/device_kernels/gpu_driver.py).
    "gpu": {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_PLACEMENT": "device"},
}


def set_environment(configuration: str) -> None:
    # Between the dots of tests, and in what tests compare, it says nothing new.
    os.environ.setdefault("OUTBOARD_COMPILE_NOTICE", "0")
    for name, value in CONFIGURATIONS.get(configuration, {}).items():
        os.environ.setdefault(name, value)


def choose_driver(driver: str | None) -> None:
    """`--driver` is OUTBOARD_DRIVER for this run, also in processes that it starts."""
    if driver is not None:
        is_path = os.sep in driver or driver.endswith(".so")
        os.environ["OUTBOARD_DRIVER"] = os.path.abspath(driver) if is_path else driver


# Tests name folders of their own for compiled programs; what PoCL compiled before serves all.
os.environ.setdefault(
    "POCL_CACHE_DIR",
    os.path.join(platformdirs.user_cache_dir("torch_outboard"), "programs", "pocl"),
)

# Other conftest files import PyTorch before pytest has read its options, and that settles the name
# of the device.
_early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
_early.add_argument("--configuration", default="environment")
_early.add_argument("--driver")
_options = _early.parse_known_args()[0]
choose_driver(_options.driver)
if "PYTEST_XDIST_WORKER" not in os.environ:  # they have it from the process that started them
    set_environment(_options.configuration)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--configuration",
        choices=sorted(CONFIGURATIONS),
        default="environment",
        help="how the driver is set up (default: as the environment says, else driver `host`)",
    )
    parser.addoption(
        "--driver",
        metavar="DRIVER",
        help="the driver to test: the path of its library, or the name of an installed one",
    )


def pytest_configure(config: pytest.Config) -> None:
    choose_driver(config.getoption("driver"))
    set_environment(config.getoption("configuration"))
    if config.getoption("configuration") == "gpu":
        from tests.device_kernels import gpu_driver

        gpu_driver.use()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("by_turns")
        if mark is None:
            continue
        if not is_its_turn(item.nodeid, mark.args[0]):
            item.add_marker(pytest.mark.slow)


def pytest_report_header() -> str:
    import torch

    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("OUTBOARD_")]
    name = torch._C._get_privateuse1_backend_name()
    settings_of_run = " ".join(settings) or "default settings"
    return f"torch {torch.__version__}, device '{name}', turn {turn()}, {settings_of_run}"


@pytest.fixture(scope="session")
def device() -> object:
    """The current driver's device, with its index: torch.device("host", 0)."""
    import torch

    import torch_outboard

    return torch.device(torch_outboard.device_name(), 0)


@pytest.fixture(scope="session")
def device_module(device: object) -> object:
    """The module of the device: torch.host."""
    import torch

    return torch.get_device_module(device)


@pytest.fixture(scope="session")
def shares_memory(device: object) -> bool:
    """Whether the host can touch the device's memory."""
    import torch

    return torch.get_device_module(device).get_device_properties(device).host_access == "coherent"
