"""Queues: order, waiting, callbacks, many threads, the end of the driver."""

import ctypes
import signal
import threading
import time
from pathlib import Path

import pytest
from driver_support import DriverUnderTest, assert_bytes, fails_with, open_driver

from tests.support import in_threads
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import HostFunction, Status


def test_order_of_many_commands(driver: DriverUnderTest, queue: int) -> None:
    address = driver.make_memory(1 << 20)
    copies = [ctypes.create_string_buffer(1) for _ in range(300)]
    opened = driver.gate(queue)
    for i, copy in enumerate(copies):
        driver.fill(queue, address, bytes([i % 251]), 1 if i % 3 else 1 << 16)
        driver.copy_device_to_host(queue, copy, address, 1)
    opened.set()
    driver.queue_synchronize(queue)
    assert [copy.raw[0] for copy in copies] == [i % 251 for i in range(300)]


def test_queues_do_not_wait_for_each_other(driver: DriverUnderTest) -> None:
    blocked, free = driver.make_queue(), driver.make_queue()
    driver.gate(blocked)
    driver.write(free, driver.make_memory(1 << 20), bytes(1 << 20))
    assert driver.queue_query(free)
    assert not driver.queue_query(blocked)


def test_synchronize_waits_only_for_work_so_far(driver: DriverUnderTest, queue: int) -> None:
    reached, go = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go.wait(60)

    driver.host_callback(queue, hold)
    assert reached.wait(10)
    thread = threading.Thread(target=driver.queue_synchronize, args=(queue,))
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive()
    driver.gate(queue)
    go.set()
    thread.join(10)
    assert not thread.is_alive()
    assert not driver.queue_query(queue)


def test_device_synchronize(driver: DriverUnderTest) -> None:
    driver.need("device_synchronize")
    greatest = driver.device_properties(0).greatest_priority
    here, also_here = driver.make_queue(0), driver.make_queue(0, greatest)
    elsewhere = driver.make_queue(1)
    driver.gate(elsewhere)
    done: list[int] = []
    for queue in (here, also_here):
        driver.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    driver.device_synchronize(0)
    assert len(done) == 2
    assert driver.queue_query(here)
    assert driver.queue_query(also_here)
    assert not driver.queue_query(elsewhere)


def test_queues_can_come_while_a_device_is_awaited(driver: DriverUnderTest) -> None:
    driver.need("device_synchronize")
    opened = driver.gate(driver.make_queue())
    thread = threading.Thread(target=driver.device_synchronize, args=(0,))
    thread.start()
    time.sleep(0.05)
    driver.queue_destroy(driver.queue_create(0))
    assert thread.is_alive()
    opened.set()
    thread.join(10)
    assert not thread.is_alive()


def test_queues_can_go_while_a_device_is_awaited(driver: DriverUnderTest) -> None:
    driver.need("device_synchronize")
    memory = driver.make_memory(4096)
    stopped = threading.Event()

    def wait() -> None:
        while not stopped.is_set():
            driver.device_synchronize(0)

    waiter = threading.Thread(target=wait)
    waiter.start()
    try:
        for i in range(50):
            queue = driver.queue_create(0)
            driver.fill(queue, memory, bytes([i]), 4096)
            driver.queue_destroy(queue)
    finally:
        stopped.set()
        waiter.join()
    assert_bytes(driver.read(driver.make_queue(), memory, 4096), bytes([49]) * 4096)


@pytest.mark.shipped_only
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


def test_priorities(driver: DriverUnderTest) -> None:
    properties = driver.device_properties(0)
    for priority in range(properties.greatest_priority, properties.least_priority + 1):
        queue = driver.make_queue(0, priority)
        address = driver.make_memory(100_000)
        driver.write(queue, address, b"x" * 100_000)
        assert_bytes(driver.read(queue, address, 100_000), b"x" * 100_000)
    for priority in (properties.greatest_priority - 1, properties.least_priority + 1, 2**31 - 1):
        with fails_with(Status.INVALID_ARGUMENT) as error:
            driver.queue_create(0, priority)
        if driver.shipped:
            assert str(priority) in str(error.value)


def test_callbacks_run_once_in_order_on_another_thread(driver: DriverUnderTest, queue: int) -> None:
    ran: list[tuple[int, int]] = []
    for i in range(100):
        driver.host_callback(queue, lambda i=i: ran.append((i, threading.get_ident())))
    driver.queue_synchronize(queue)
    assert [i for i, _ in ran] == list(range(100))
    assert threading.get_ident() not in {thread for _, thread in ran}
    if driver.shipped:
        status = driver.status("host_callback", queue, HostFunction(), None)
        assert status == Status.INVALID_ARGUMENT


def test_many_threads_on_one_queue(driver: DriverUnderTest, queue: int) -> None:
    addresses = [driver.make_memory(20_000) for _ in range(4)]

    def work(i: int) -> None:
        for r in range(40):
            expected = bytes([(i * 37 + r) % 256]) * 20_000
            driver.copy_host_to_device(queue, addresses[i], expected, 20_000)
            assert_bytes(driver.read(queue, addresses[i], 20_000), expected)

    in_threads(work, 4)


def test_many_threads_with_their_own_queues(driver: DriverUnderTest) -> None:
    address = driver.make_memory(1 << 16)

    def work(i: int) -> None:
        part = address + i * 4096
        for _ in range(20):
            queue = driver.queue_create(0)
            driver.fill(queue, part, bytes([i]), 4096)
            assert_bytes(driver.read(queue, part, 4096), bytes([i]) * 4096)
            driver.queue_destroy(queue)

    in_threads(work, 8)


@pytest.mark.shipped_only
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
