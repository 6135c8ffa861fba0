"""Queues: order, waiting, callbacks, priorities, their end."""

from __future__ import annotations

import ctypes
import functools
import threading
import time

from torch_outboard.check.catalog import check
from torch_outboard.check.session import (
    Session,
    ends,
    expect,
    expect_bytes,
    expect_equal,
    expect_within,
    happens,
)
from torch_outboard.drivers.contract import Status

IN_ORDER = "An in-order queue: work starts when all earlier work on the same queue is done."
UNORDERED = "Order between queues comes from events alone."
QUERY = "OB_OK when all work on the queue is done, else OB_NOT_READY. Does not wait."
SYNCHRONIZE = "Waits for all work that was on the queue when the call began."
DEVICE = "Waits for all queues of the device."
GOING = (
    "From the start of the call no other call uses the queue, but a device_synchronize may be "
    "under way."
)


@check("queue_create", says=IN_ORDER, advice="Give each queue one thread or one stream.")
def order(driver: Session) -> None:
    """Three hundred copies and fills run in the order of their calls."""
    queue, address = driver.make_queue(), driver.make_memory(1 << 20)
    copies = [ctypes.create_string_buffer(1) for _ in range(300)]
    opened = driver.gate(queue) if driver.has("host_callback") else None
    for i, copy in enumerate(copies):
        driver.fill(queue, address, bytes([i % 251]), 1 if i % 3 else 1 << 16)
        driver.copy_device_to_host(queue, copy, address, 1)
    if opened is not None:
        opened.set()
    driver.queue_synchronize(queue)
    found = [copy.raw[0] for copy in copies]
    expect_equal(found, [i % 251 for i in range(300)], "what each copy brought")


@check("host_callback", says=UNORDERED, advice="Run each queue by a thread or stream of its own.")
def queues_are_independent(driver: Session) -> None:
    """A blocked queue does not stop another."""
    blocked, free = driver.make_queue(), driver.make_queue()
    memory = driver.make_memory(1 << 20)
    opened = driver.gate(blocked)
    expect_within(lambda: driver.write(free, memory, bytes(1 << 20)), opened, "queue_synchronize")


@check("host_callback", says=QUERY, advice="Compare the counts of submitted and finished work.")
def query(driver: Session) -> None:
    """A queue with work is not ready, and ready when it is done."""
    queue = driver.make_queue()
    expect(driver.queue_query(queue), "a new queue that is ready", "NOT_READY")
    opened = driver.gate(queue)
    driver.fill(queue, driver.make_memory(64), b"a", 64)
    expect(not driver.queue_query(queue), "NOT_READY while work waits", "OK")
    opened.set()
    driver.queue_synchronize(queue)
    expect(driver.queue_query(queue), "OK after queue_synchronize", "NOT_READY")


@check(
    "host_callback",
    says=SYNCHRONIZE,
    advice="Note the number of submitted commands at the start of the call, and wait for that.",
)
def synchronize_waits_for_work_so_far(driver: Session) -> None:
    """A wait ends though more work came meanwhile, and not earlier than its own."""
    queue = driver.make_queue()
    reached, go = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go.wait(20)

    driver.host_callback(queue, hold)
    expect(
        happens(reached, 10),
        "a call of the function",
        "none in 10 seconds",
        function="host_callback",
    )
    thread = threading.Thread(target=driver.queue_synchronize, args=(queue,), daemon=True)
    thread.start()
    time.sleep(0.2)
    early = not thread.is_alive()
    driver.gate(queue)
    go.set()
    ended = ends(thread, 10)
    expect(
        not early,
        "a wait for the work on the queue",
        "a return before",
        function="queue_synchronize",
    )
    expect(
        ended,
        "a return when earlier work is done",
        "none in 10 seconds",
        function="queue_synchronize",
    )
    expect(not driver.queue_query(queue), "NOT_READY for later work", "OK", function="queue_query")


@check("device_synchronize", "host_callback", says=DEVICE, advice="Wait for each queue in turn.")
def device_synchronize(driver: Session) -> None:
    """All queues of the device are done afterwards."""
    greatest = driver.device_properties(0).greatest_priority
    here, also_here = driver.make_queue(0), driver.make_queue(0, greatest)
    done: list[int] = []

    def function() -> None:
        time.sleep(0.05)
        done.append(1)

    for queue in (here, also_here):
        driver.host_callback(queue, function)
    driver.device_synchronize(0)
    expect_equal(len(done), 2, "finished functions")
    for queue in (here, also_here):
        expect(driver.queue_query(queue), "an idle queue", "work on it")


@check(
    "device_synchronize",
    "host_callback",
    says=DEVICE,
    advice="Wait for queues of that device alone.",
    devices=2,
)
def device_synchronize_leaves_other_devices(driver: Session) -> None:
    """A blocked queue of another device does not stop the wait."""
    elsewhere = driver.make_queue(1)
    driver.fill(driver.make_queue(0), driver.make_memory(64), b"a", 64)
    opened = driver.gate(elsewhere)
    expect_within(lambda: driver.device_synchronize(0), opened, "device_synchronize")


@check(
    "device_synchronize",
    "host_callback",
    says=DEVICE,
    advice="Do not hold the lock of the list of queues while waiting.",
)
def queues_come_while_a_device_is_awaited(driver: Session) -> None:
    """Queues can be created and destroyed while another thread waits for the device."""
    opened = driver.gate(driver.make_queue())
    thread = threading.Thread(target=driver.device_synchronize, args=(0,), daemon=True)
    thread.start()
    time.sleep(0.05)
    waits = thread.is_alive()

    def come_and_go() -> None:
        driver.queue_destroy(driver.queue_create(0))

    expect_within(come_and_go, opened, "queue_create")
    ended = ends(thread, 10)
    expect(waits, "a wait for the blocked queue", "a return before")
    expect(ended, "a return when the queue is done", "none in 10 seconds")


@check(
    "device_synchronize",
    says=GOING,
    advice="Count the waiting threads of a queue before freeing it.",
)
def queues_go_while_a_device_is_awaited(driver: Session) -> None:
    """Fifty queues are destroyed with work while another thread waits for the device."""
    memory = driver.make_memory(4096)
    stopped = threading.Event()
    problems: list[Exception] = []

    def wait() -> None:
        try:
            while not stopped.is_set():
                driver.device_synchronize(0)
        except Exception as error:
            problems.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    try:
        for i in range(50):
            queue = driver.queue_create(0)
            driver.fill(queue, memory, bytes([i]), 4096)
            driver.queue_destroy(queue)
    finally:
        stopped.set()
        ends(waiter, 20)
    if problems:
        raise problems[0]
    found = driver.read(driver.make_queue(), memory, 4096)
    expect_bytes(found, bytes([49]) * 4096, "the last fill")


@check(
    "queue_destroy",
    says="After its work is done; waits for it if need be",
    advice="Synchronize the queue before its memory is freed.",
)
def destroyed_with_work(driver: Session) -> None:
    """A queue that is destroyed finishes its work first."""
    memory = driver.make_memory(4 << 20)
    for i in range(10):
        queue = driver.queue_create(0)
        for _ in range(4):
            driver.fill(queue, memory, bytes([i]), 4 << 20)
        driver.queue_destroy(queue)
        found = driver.read(driver.make_queue(), memory, 4 << 20)
        expect_bytes(found, bytes([i]) * (4 << 20), f"fills of queue {i}")


@check(
    "queue_create",
    says="between the device's limits (checked)",
    advice="Accept each priority, also where it changes nothing, and refuse others.",
)
def priorities(driver: Session) -> None:
    """Queues of each priority work, and priorities beyond are refused."""
    properties = driver.device_properties(0)
    address = driver.make_memory(100_000)
    for priority in range(properties.greatest_priority, properties.least_priority + 1):
        queue = driver.make_queue(0, priority)
        driver.fill(queue, address, b"\xee", 100_000)
        driver.write(queue, address, b"x" * 100_000)
        found = driver.read(queue, address, 100_000)
        expect_bytes(found, b"x" * 100_000, f"a copy at priority {priority}")
    for priority in (properties.greatest_priority - 1, properties.least_priority + 1, 2**31 - 1):
        with driver.failing(Status.INVALID_ARGUMENT, "queue_create", f"priority {priority}"):
            driver.queue_create(0, priority)


@check(
    "host_callback",
    says="Calls function(argument) once, on a thread of the driver's, when earlier work on the "
    "queue is done; later work waits for it to return.",
    advice="Run callbacks in the queue's own order, one at a time, on a thread of the driver.",
)
def callbacks(driver: Session) -> None:
    """A hundred functions run once each, in order, on another thread."""
    queue = driver.make_queue()
    ran: list[tuple[int, int]] = []

    def note(number: int) -> None:
        ran.append((number, threading.get_ident()))

    for i in range(100):
        driver.host_callback(queue, functools.partial(note, i))
    driver.queue_synchronize(queue)
    expect_equal([i for i, _ in ran], list(range(100)), "the numbers of the functions")
    here = threading.get_ident() in {thread for _, thread in ran}
    expect(not here, "calls on a thread of the driver", "calls on the caller's thread")


@check(
    "host_callback",
    says="later work waits for it to return",
    advice="Mark the callback as done after it returned.",
)
def work_waits_for_callbacks(driver: Session) -> None:
    """Work behind a function starts when it has returned, work before it is done."""
    queue, address = driver.make_queue(), driver.make_memory(1 << 20)
    seen: list[bool] = []
    finished: list[int] = []
    before, after = driver.make_event(), driver.make_event()
    driver.fill(queue, address, b"a", 1 << 20)
    driver.event_record(before, queue)

    def function() -> None:
        time.sleep(0.1)
        finished.append(1)

    driver.host_callback(queue, function)
    driver.event_record(after, queue)
    result = ctypes.create_string_buffer(1 << 20)
    driver.copy_device_to_host(queue, result, address, 1 << 20)
    driver.event_synchronize(after)
    seen.append(bool(finished))
    driver.queue_synchronize(queue)
    expect(seen[0], "an event behind the function after its return", "one before")
    expect(driver.event_query(before), "the event before it has happened", "it is pending")
    expect_bytes(result.raw, b"a" * (1 << 20), "a copy behind the function")


@check(
    "host_callback",
    says="The function calls no driver function but communicator_error.",
    advice="Call the function without any lock of the driver held.",
)
def callbacks_hold_no_lock(driver: Session) -> None:
    """While a function runs, other threads use every other part of the driver."""
    queue, memory = driver.make_queue(), driver.make_memory(4096)
    opened = driver.gate(queue, is_reached=True)

    def work() -> None:
        other = driver.queue_create(0)
        event = driver.event_create(0)
        driver.fill(other, memory, b"a", 4096)
        driver.event_record(event, other)
        driver.event_wait(queue, event)
        driver.event_synchronize(event)
        driver.queue_query(queue)
        driver.fill(queue, memory, b"b", 4096)
        driver.queue_destroy(other)
        driver.event_destroy(event)

    expect_within(work, opened, "host_callback")


@check("queue_create", says=IN_ORDER, advice="Free a queue's thread and memory in queue_destroy.")
def many_queues(driver: Session) -> None:
    """Two hundred queues live at once, and each works."""
    memory = driver.make_memory(200 * 64)
    queues = [driver.make_queue(0) for _ in range(200)]
    expect_equal(len(set(queues)), 200, "different queues")
    for i, queue in enumerate(queues):
        driver.fill(queue, memory + 64 * i, bytes([i]), 64)
    for queue in queues:
        driver.queue_synchronize(queue)
    found = driver.read(queues[0], memory, 200 * 64)
    expect_bytes(found, b"".join(bytes([i]) * 64 for i in range(200)), "what 200 queues wrote")
