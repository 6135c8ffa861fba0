"""Graphs: capture and replay."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import pytest
from driver_support import DriverUnderTest, assert_bytes

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

Make = Callable[..., int]


def test_capture_does_nothing_until_launched(
    driver: DriverUnderTest, make_queue: Make, make_memory: Make
) -> None:
    driver.need("graph_begin", "host_callback")
    captured, queue = make_queue(), make_queue()
    address = make_memory(100_000)
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


def test_released_while_running(
    driver: DriverUnderTest,
    queue: int,
    make_memory: Make,
    gate: Callable[[int], threading.Event],
) -> None:
    address = make_memory(64)
    driver.graph_begin(queue)
    driver.fill(queue, address, b"g", 64)
    graph = driver.graph_end(queue)
    opened = gate(queue)
    driver.graph_launch(queue, graph)
    driver.graph_release(graph)
    opened.set()
    assert driver.read(queue, address, 64) == b"g" * 64


@pytest.mark.shipped_only
def test_graph_of_a_graph(driver: DriverUnderTest, queue: int, make_memory: Make) -> None:
    address = make_memory(64)
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
def test_wrong_use(driver: DriverUnderTest, make_queue: Make, make_event: Make) -> None:
    queue, elsewhere = make_queue(0), make_queue(1)
    with pytest.raises(DriverError, match="not capturing"):
        driver.graph_end(queue)
    driver.graph_begin(queue)
    with pytest.raises(DriverError, match="already capturing"):
        driver.graph_begin(queue)
    with pytest.raises(DriverError) as error:
        driver.event_record(make_event(), queue)
    assert error.value.status == Status.UNSUPPORTED
    graph = driver.graph_end(queue)
    with pytest.raises(DriverError, match="device 0"):
        driver.graph_launch(elsewhere, graph)
    driver.graph_release(graph)


@pytest.mark.shipped_only
def test_queue_destroyed_while_capturing(driver: DriverUnderTest, make_memory: Make) -> None:
    address = make_memory(64)
    queue = driver.queue_create(0)
    driver.graph_begin(queue)
    driver.fill(queue, address, b"g", 64)
    driver.queue_destroy(queue)
