"""The driver ocl on a device of this machine: properties, masks, kinds of memory, the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from driver_support import MEMORY, OCL, DriverUnderTest, open_driver, reason_without_opencl

from torch_outboard.drivers import ocl
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import (
    Addressing,
    DeviceKind,
    DType,
    Feature,
    HostAccess,
    Status,
)

pytestmark = [
    pytest.mark.ocl_only,
    pytest.mark.skipif(reason_without_opencl() is not None, reason=str(reason_without_opencl())),
]


def test_properties(driver: DriverUnderTest) -> None:
    first, second = (driver.device_properties(device) for device in range(2))
    assert b"copy 0" in first.name
    assert b"copy 1" in second.name
    for properties in (first, second):
        assert properties.vendor
        assert properties.driver_version == first.driver_version
        assert properties.total_memory == MEMORY
        assert properties.max_allocation == MEMORY
        assert properties.alignment >= 128
        assert properties.compute_units >= 1
        assert properties.preferred_vector_width >= 1
        assert properties.max_work_group_size >= 1
        assert properties.local_memory >= 16 << 10
        assert properties.dtypes & DType.FLOAT32
        assert not properties.dtypes & DType.BFLOAT16


def test_large_memory_of_a_processor_begins_with_a_huge_page(driver: DriverUnderTest) -> None:
    properties = driver.device_properties(0)
    if properties.kind != DeviceKind.CPU or properties.addressing != Addressing.POINTER:
        pytest.skip("the device is no processor, or its addresses are handles")
    for size in (2 << 20, (4 << 20) + 4096, MEMORY):
        addresses = [driver.allocate(0, size) for _ in range(MEMORY // size)]
        assert [address % (2 << 20) for address in addresses] == [0] * len(addresses)
        for address in addresses:
            driver.deallocate(0, address)


def test_memory_is_what_was_asked_for(driver: DriverUnderTest) -> None:
    expected = {
        "shared": (Addressing.POINTER, HostAccess.COHERENT),
        "coarse": (Addressing.POINTER, HostAccess.NONE),
        "handles": (Addressing.HANDLE, HostAccess.NONE),
    }[driver.memory]
    properties = driver.device_properties(0)
    assert (properties.addressing, properties.host_access) == expected
    adopts = bool(properties.features & Feature.HOST_MEMORY_IS_DEVICE_MEMORY)
    assert adopts == (driver.memory == "shared" and properties.kind == DeviceKind.CPU)


def test_allocations_are_aligned(driver: DriverUnderTest) -> None:
    addresses = [driver.allocate(0, size) for size in (1, 3, 100, 129, 5000)]
    for address in addresses:
        assert address % 128 == 0
        driver.deallocate(0, address)


def test_mask(tmp_path: Path) -> None:
    (tmp_path / "masked").mkdir()
    plain = open_driver(tmp_path, ocl, **OCL).device_properties(0)
    masks = OCL | {"OUTBOARD_OCL_MASK": "float64"}
    masked = open_driver(tmp_path / "masked", ocl, **masks).device_properties(0)
    hidden = DType.FLOAT64 | DType.COMPLEX128
    assert masked.dtypes == plain.dtypes & ~hidden


def test_default_memory_of_a_processor(tmp_path: Path) -> None:
    settings = OCL | {"OUTBOARD_OCL_MEMORY_BYTES": "", "OUTBOARD_OCL_COPIES": "2"}
    driver = open_driver(tmp_path, ocl, **settings)
    properties = driver.device_properties(0)
    if properties.kind != DeviceKind.CPU:
        pytest.skip("the device is no processor")
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 2 * properties.total_memory == pytest.approx(physical / 2, rel=1e-3)
    assert 0 < properties.max_allocation <= properties.total_memory
    with pytest.raises(DriverError, match=str(properties.max_allocation)) as error:
        driver.allocate(0, properties.max_allocation + 1)
    assert error.value.status == Status.OUT_OF_MEMORY


# A child for each way to touch a device address, forked before the driver is in use.
TOUCH = """
import ctypes, os
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client

def touch(how):
    driver = Client(contract.load(ocl.library_path()))
    queue, address = driver.queue_create(0), driver.allocate(0, 1 << 20)
    driver.fill(queue, address, b"x", 1 << 20)
    if driver.read(queue, address, 3) != b"xxx":
        os._exit(1)
    if how == "read":
        ctypes.string_at(address + 4096, 1)
    elif how == "write":
        ctypes.memset(address, 0, 1)
    os._exit(0)

for how in ("nothing", "read", "write"):
    child = os.fork()
    if child == 0:
        touch(how)
    print(how, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
FAULT = -signal.SIGSEGV


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(("memory", "status"), [("shared", 0), ("handles", FAULT)])
def test_touching_a_device_address(memory: str, status: int) -> None:
    if reason := reason_without_opencl(memory):
        pytest.skip(reason)
    environment = {"OUTBOARD_OCL_MEMORY": memory, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    printed = subprocess.check_output(
        [sys.executable, "-c", TOUCH], env=os.environ | OCL | environment, text=True, timeout=120
    )
    found = {how: int(code) for how, code in (line.split() for line in printed.splitlines())}
    assert found == {"nothing": 0, "read": status, "write": status}


# Ends a process with work of all kinds alive or pending.
END = """
import sys, time
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client, DriverError

driver = Client(contract.load(ocl.library_path()))
queues = [driver.queue_create(i % 2) for i in range(4)]
addresses = [driver.allocate(i % 2, 8 << 20) for i in range(4)]
done = []
for queue, address in zip(queues, addresses):
    driver.fill(queue, address, b"abcd", 8 << 20)
    driver.host_callback(queue, lambda: (time.sleep(0.02), done.append(1)))
    driver.fill(queue, address, b"efgh", 8 << 20)
event = driver.event_create(0)
driver.event_record(event, queues[0])
driver.event_wait(queues[1], event)
if sys.argv[1] == "finalized":
    driver.finalize()
    assert len(done) == 4
    try:
        driver.fill(queues[0], addresses[0], b"a", 4)
    except DriverError as error:
        assert "ended" in str(error)
    else:
        raise AssertionError("work was accepted after the end")
else:
    driver.device_synchronize(0)
    driver.device_synchronize(1)
print("end", flush=True)
"""


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(
    ("memory", "how"),
    [("shared", "finalized"), ("coarse", "synchronized"), ("handles", "finalized")],
)
def test_end_of_the_process(memory: str, how: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", END, how],
        env=os.environ | OCL | {"OUTBOARD_OCL_MEMORY": memory},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")
