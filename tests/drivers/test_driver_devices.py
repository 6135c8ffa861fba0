"""Devices, properties and the settings of the host driver; test_ocl_devices.py has those of ocl."""

import os
import tempfile
import time
from pathlib import Path

import pytest
from driver_support import MEMORY, DriverUnderTest, fails_with, open_driver

from torch_outboard.check.devices import calls_of_a_device
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import (
    Addressing,
    DeviceStateField,
    DType,
    Feature,
    HostAccess,
    Status,
)


@pytest.mark.host_only
def test_properties(driver: DriverUnderTest) -> None:
    assert driver.device_count() == 2
    for device in range(2):
        properties = driver.device_properties(device)
        assert properties.addressing == Addressing.POINTER
        assert properties.total_memory == properties.max_allocation == MEMORY
        assert properties.compute_units == len(os.sched_getaffinity(0))
        assert properties.dtypes == sum(dtype for dtype in DType if "FLOAT8" not in dtype.name)
        assert (properties.least_priority, properties.greatest_priority) == (0, -1)
        shared = b"shared" in properties.name
        assert properties.host_access == (HostAccess.COHERENT if shared else HostAccess.NONE)
        assert bool(properties.features & Feature.HOST_MEMORY_IS_DEVICE_MEMORY) == shared


@pytest.mark.parametrize("device", [-1, None, 2**31 - 1])
def test_messages_name_an_unknown_device(driver: DriverUnderTest, device: int | None) -> None:
    device = driver.devices if device is None else device
    for call in calls_of_a_device(driver, device).values():
        with fails_with(Status.INVALID_ARGUMENT, str(device)):
            call()


def test_peers_are_direct_unless_memory_is_that_of_opencl(driver: DriverUnderTest) -> None:
    direct = driver.peer_access(0, 1)
    assert direct == (driver.name != "ocl" or driver.memory == "shared")


@pytest.mark.host_only(once=True)
def test_utilization_is_that_of_the_machine(driver: DriverUnderTest) -> None:
    driver.device_state(0)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    state = driver.device_state(0)
    assert state.known & DeviceStateField.UTILIZATION
    assert state.utilization >= 100 / (2 * (os.cpu_count() or 1))


def test_numbers_of_devices_and_bytes(tmp_path: Path) -> None:
    def opened(**settings: str) -> DriverUnderTest:
        return open_driver(Path(tempfile.mkdtemp(dir=tmp_path)), **settings)

    none = opened(OUTBOARD_HOST_DEVICES="0")
    assert none.device_count() == 0
    with pytest.raises(DriverError, match="has 0 devices"):
        none.allocate(0, 64)
    none.finalize()
    # Half of the host's memory by default; else whole pages.
    half = opened(OUTBOARD_HOST_MEMORY="")
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    total = half.device_properties(0).total_memory
    assert total * half.device_count() == pytest.approx(physical / 2, rel=1e-3)
    assert opened(OUTBOARD_HOST_MEMORY="5000").memory_info(0) == (8192, 8192)
    with fails_with(Status.OUT_OF_MEMORY, "cannot reserve"):
        opened(OUTBOARD_HOST_DEVICES="64", OUTBOARD_HOST_MEMORY=str(1 << 46))


@pytest.mark.parametrize("value", ["explode", "fail=allocate:0"])
def test_bad_settings_of_fault_injection_are_refused(tmp_path: Path, value: str) -> None:
    """tests/test_settings.py has those of drivers."""
    with pytest.raises(ValueError, match=f"OUTBOARD_FAULTS: .*{value}"):
        open_driver(tmp_path, OUTBOARD_FAULTS=value)
