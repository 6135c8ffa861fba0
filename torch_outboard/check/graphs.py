"""Graphs: capture and replay."""

from __future__ import annotations

import ctypes

from torch_outboard.check.catalog import check
from torch_outboard.check.session import Session, expect_bytes, expect_equal

RECORDED = "From now on work given to `queue` is recorded instead of done."
OWNS = "The graph owns what it needs but not the memory it uses."


@check("graph_begin", says=RECORDED, advice="Append commands to the graph, not to the queue.")
def capture(driver: Session) -> None:
    """Captured work does nothing until the graph is launched, and then each time."""
    captured, queue = driver.make_queue(), driver.make_queue()
    address = driver.make_memory(100_000)
    source = ctypes.create_string_buffer(b"a" * 100_000, 100_000)
    driver.write(queue, address, bytes(100_000))
    driver.graph_begin(captured)
    driver.copy_host_to_device(captured, address, source, 100_000)
    driver.fill(captured, address, b"bc", 4)
    graph = driver.graph_end(captured)
    driver.queue_synchronize(captured)
    found = driver.read(queue, address, 100_000)
    expect_bytes(found, bytes(100_000), "memory after the capture")
    driver.graph_launch(queue, graph)
    found = driver.read(queue, address, 100_000)
    expect_bytes(found, b"bcbc" + b"a" * 99_996, "memory after the first launch")
    source.raw = b"z" * 100_000
    driver.graph_launch(queue, graph)
    driver.graph_launch(queue, graph)
    found = driver.read(queue, address, 100_000)
    expect_bytes(found, b"bcbc" + b"z" * 99_996, "memory after two more")
    driver.graph_release(graph)


@check(
    "graph_begin",
    "host_callback",
    says=RECORDED,
    advice="Keep function and argument, and call them at each launch.",
)
def captured_callbacks(driver: Session) -> None:
    """A captured function is called at each launch."""
    queue = driver.make_queue()
    ran: list[int] = []
    driver.graph_begin(queue)
    driver.host_callback(queue, lambda: ran.append(1))
    graph = driver.graph_end(queue)
    for _ in range(3):
        driver.graph_launch(queue, graph)
    driver.queue_synchronize(queue)
    driver.graph_release(graph)
    expect_equal(len(ran), 3, "calls of the function after three launches")


@check(
    "graph_begin",
    "host_callback",
    says=OWNS,
    advice="Count references to a graph, and let each launch hold one.",
)
def released_while_running(driver: Session) -> None:
    """A graph may be released while a launch of it waits."""
    queue, address = driver.make_queue(), driver.make_memory(64)
    driver.graph_begin(queue)
    driver.fill(queue, address, b"g", 64)
    graph = driver.graph_end(queue)
    opened = driver.gate(queue)
    driver.graph_launch(queue, graph)
    driver.graph_release(graph)
    opened.set()
    expect_bytes(driver.read(queue, address, 64), b"g" * 64, "what the graph wrote")
