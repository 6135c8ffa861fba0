"""Graphs: capture and replay."""

import ctypes

import pytest
from driver_support import DriverUnderTest, assert_bytes, fails_with

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status


def test_capture_does_nothing_until_launched(driver: DriverUnderTest) -> None:
    driver.need("graph_begin", "host_callback")
    captured, queue = driver.make_queue(), driver.make_queue()
    address = driver.make_memory(100_000)
    source = ctypes.create_string_buffer(b"a" * 100_000, 100_000)
    ran: list[int] = []
    driver.write(queue, address, bytes(100_000))

    driver.graph_begin(captured)
    driver.copy_host_to_device(captured, address, source, 100_000)
    driver.fill(captured, address, b"bc", 4)
    driver.host_callback(captured, lambda: ran.append(1))
    graph = driver.graph_end(captured)
    driver.queue_synchronize(captured)
    assert_bytes(driver.read(queue, address, 100_000), bytes(100_000))

    driver.graph_launch(queue, graph)
    assert_bytes(driver.read(queue, address, 100_000), b"bcbc" + b"a" * 99_996)
    source.raw = b"z" * 100_000
    driver.graph_launch(queue, graph)
    driver.graph_launch(queue, graph)
    assert_bytes(driver.read(queue, address, 100_000), b"bcbc" + b"z" * 99_996)
    assert ran == [1, 1, 1]
    driver.graph_release(graph)


def test_released_while_running(driver: DriverUnderTest, queue: int) -> None:
    address = driver.make_memory(64)
    driver.graph_begin(queue)
    driver.fill(queue, address, b"g", 64)
    graph = driver.graph_end(queue)
    opened = driver.gate(queue)
    driver.graph_launch(queue, graph)
    driver.graph_release(graph)
    opened.set()
    assert driver.read(queue, address, 64) == b"g" * 64


@pytest.mark.shipped_only
def test_graph_of_a_graph(driver: DriverUnderTest, queue: int) -> None:
    address = driver.make_memory(64)
    driver.graph_begin(queue)
    driver.fill(queue, address, b"i", 32)
    inner = driver.graph_end(queue)
    driver.graph_begin(queue)
    driver.fill(queue, address, b"o", 64)
    driver.graph_launch(queue, inner)
    outer = driver.graph_end(queue)
    driver.graph_launch(queue, outer)
    assert driver.read(queue, address, 64) == b"i" * 32 + b"o" * 32
    driver.graph_release(inner)
    driver.graph_release(outer)


@pytest.mark.shipped_only
def test_wrong_use(driver: DriverUnderTest) -> None:
    queue, elsewhere = driver.make_queue(0), driver.make_queue(1)
    with pytest.raises(DriverError, match="not capturing"):
        driver.graph_end(queue)
    driver.graph_begin(queue)
    with pytest.raises(DriverError, match="already capturing"):
        driver.graph_begin(queue)
    with fails_with(Status.UNSUPPORTED):
        driver.event_record(driver.make_event(), queue)
    graph = driver.graph_end(queue)
    with pytest.raises(DriverError, match="device 0"):
        driver.graph_launch(elsewhere, graph)
    driver.graph_release(graph)
    # It may be destroyed while it captures.
    capturing, address = driver.queue_create(0), driver.make_memory(64)
    driver.graph_begin(capturing)
    driver.fill(capturing, address, b"g", 64)
    driver.queue_destroy(capturing)
