"""Threads of queues, signals and the end of our drivers."""

import signal
import time
from pathlib import Path

import pytest
from driver_support import DriverUnderTest, open_driver

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import HostFunction, Status


def test_unused_queues_are_cheap(driver: DriverUnderTest) -> None:
    before = threads()
    priority = driver.device_properties(1).greatest_priority
    queues = [driver.queue_create(i % 2, priority if i % 2 else 0) for i in range(200)]
    assert len(set(queues)) == 200
    assert threads() <= before
    for queue in queues:
        driver.queue_synchronize(queue)
        driver.queue_destroy(queue)


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def threads_become(count: int) -> bool:
    """Whether the number of threads is this, soon: the system shows one a while after its end."""
    deadline = time.monotonic() + 10
    while threads() != count and time.monotonic() < deadline:
        time.sleep(0.01)
    return threads() == count


def test_signals_reach_the_application(driver: DriverUnderTest, queue: int) -> None:
    driver.host_callback(queue, lambda: None)
    driver.queue_synchronize(queue)
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == f"outboard_{driver.name}":
            status = (task / "status").read_text()
            blocked = int(status.split("SigBlk:")[1].split()[0], 16)
            assert blocked & (1 << (signal.SIGINT - 1))
            assert blocked & (1 << (signal.SIGTERM - 1))
            break
    else:
        pytest.fail("the worker has no name by which to find it")


def test_finalize_does_pending_work_and_ends_threads(tmp_path: Path) -> None:
    before = threads()
    driver = open_driver(tmp_path)
    queues = [driver.queue_create(i % 2) for i in range(4)]
    done: list[int] = []
    for queue in queues:
        driver.host_callback(queue, lambda: (time.sleep(0.02), done.append(1)))
    assert threads() > before
    driver.finalize()
    assert len(done) == 4
    assert threads_become(before)
    with pytest.raises(DriverError, match="ended"):
        driver.host_callback(queues[0], lambda: None)


def test_callback_that_is_null(driver: DriverUnderTest, queue: int) -> None:
    status = driver.status("host_callback", queue, HostFunction(), None)
    assert status == Status.INVALID_ARGUMENT
