"""The driver ocl on a device of this machine: properties, masks, kinds of memory, the end."""

import os
from pathlib import Path

import pytest
from driver_support import (
    MEMORY,
    OCL,
    DriverUnderTest,
    fails_with,
    open_driver,
)

from tests.support import try_python
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
    pytest.mark.opencl,
]


def test_properties(driver: DriverUnderTest) -> None:
    assert driver.device_count() == 2
    first, second = (driver.device_properties(device) for device in range(2))
    assert b"copy 0" in first.name
    assert b"copy 1" in second.name
    assert second.driver_version == first.driver_version
    assert second.total_memory == second.max_allocation == MEMORY
    assert second.alignment >= 128
    assert second.preferred_vector_width >= 1
    assert second.max_work_group_size >= 1
    assert second.local_memory >= 16 << 10
    assert second.dtypes & DType.FLOAT32
    assert not second.dtypes & DType.BFLOAT16


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
        "handles": (Addressing.HANDLE, HostAccess.NONE),
    }[driver.memory]
    properties = driver.device_properties(0)
    assert (properties.addressing, properties.host_access) == expected
    for size in (1, 3, 100, 129, 5000):
        assert driver.make_memory(size) % 128 == 0
    adopts = bool(properties.features & Feature.HOST_MEMORY_IS_DEVICE_MEMORY)
    assert adopts == (driver.memory == "shared" and properties.kind == DeviceKind.CPU)


def test_coarse_memory(tmp_path: Path) -> None:
    try:
        driver = open_driver(tmp_path, ocl, **OCL, OUTBOARD_OCL_MEMORY="coarse")
    except DriverError as error:
        pytest.skip(str(error))
    properties = driver.device_properties(0)
    assert (properties.addressing, properties.host_access) == (Addressing.POINTER, HostAccess.NONE)
    queue, memory = driver.queue_create(0), driver.allocate(0, 4096)
    driver.fill(queue, memory, b"a", 4096)
    driver.write(queue, memory + 100, b"bcd")
    assert driver.read(queue, memory, 4096) == b"a" * 100 + b"bcd" + b"a" * 3993


def test_default_memory_of_a_processor(tmp_path: Path) -> None:
    driver = open_driver(tmp_path, ocl, **OCL | {"OUTBOARD_OCL_MEMORY_BYTES": ""})
    properties = driver.device_properties(0)
    if properties.kind != DeviceKind.CPU:
        pytest.skip("the device is no processor")
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 2 * properties.total_memory == pytest.approx(physical / 2, rel=1e-3)
    assert 0 < properties.max_allocation <= properties.total_memory
    with fails_with(Status.OUT_OF_MEMORY, str(properties.max_allocation)):
        driver.allocate(0, properties.max_allocation + 1)


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


@pytest.mark.parametrize(("memory", "how"), [("shared", "synchronized"), ("handles", "finalized")])
def test_end_of_the_process(memory: str, how: str) -> None:
    result = try_python(END, how, timeout=60, **OCL, OUTBOARD_OCL_MEMORY=memory)
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")
