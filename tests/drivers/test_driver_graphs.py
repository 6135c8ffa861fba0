"""Graphs of our drivers beyond the contract: in graphs, and used wrongly."""

import pytest
from driver_support import DriverUnderTest, fails_with

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status


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
