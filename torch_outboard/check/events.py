"""Events: order across queues, recording again, times, lifetime."""

from __future__ import annotations

import ctypes
import functools
import threading
import time

from torch_outboard.check.catalog import check
from torch_outboard.check.session import Session, ends, expect, expect_bytes, expect_within
from torch_outboard.drivers.contract import Status

RECORD = "The event now stands for all work on `queue` so far."
WAIT = "Later work on `queue` (of any device) starts when the event has happened."
NEVER = "OB_OK if it has happened or was never recorded, else OB_NOT_READY."
LIFETIME = "Legal at any time, also while recorded work is pending."
ELAPSED = "Milliseconds from `start` to `end`, negative if `end` happened first."


@check("event_query", says=NEVER, advice="Begin an event as one that has happened.")
def never_recorded(driver: Session) -> None:
    """An event that was never recorded has happened, and nothing waits for it."""
    queue, event = driver.make_queue(), driver.make_event()
    expect(driver.event_query(event), "OK", "NOT_READY")
    driver.event_synchronize(event)
    driver.event_wait(queue, event)
    driver.queue_synchronize(queue)
    expect(driver.queue_query(queue), "an idle queue", "work on it", function="event_wait")


@check("event_record", "host_callback", says=RECORD, advice="Append the recording to the queue.")
def stands_for_work_so_far(driver: Session) -> None:
    """An event happens when the work before it is done, whatever comes later."""
    queue = driver.make_queue()
    first, second = driver.make_event(), driver.make_event()
    opened = driver.gate(queue)
    driver.event_record(first, queue)
    driver.gate(queue)
    driver.event_record(second, queue)
    expect(not driver.event_query(first), "NOT_READY while the work waits", "OK")
    opened.set()
    driver.event_synchronize(first)
    expect(driver.event_query(first), "OK once its work is done", "NOT_READY")
    expect(not driver.event_query(second), "NOT_READY for a later event", "OK")


def _orders(driver: Session, device: int) -> None:
    producer, consumer = driver.make_queue(0), driver.make_queue(device)
    size = 1 << 16
    source, target = driver.make_memory(size), driver.make_memory(size, device)
    event = driver.make_event()
    driver.fill(producer, source, b"..", size)
    driver.queue_synchronize(producer)
    opened = driver.gate(producer)
    driver.fill(producer, source, b"ab", size)
    driver.event_record(event, producer)
    driver.event_wait(consumer, event)
    if device == 0:
        driver.copy_device_to_device(consumer, target, source, size)
    else:
        driver.copy_peer(consumer, device, target, 0, source, size)
    time.sleep(0.02)
    expect(not driver.queue_query(consumer), "a queue that waits for the event", "an idle one")
    opened.set()
    found = driver.read(consumer, target, size)
    expect_bytes(found, b"ab" * (size // 2), "what was written before the event")


@check("event_wait", "host_callback", says=WAIT, advice="Append the wait to the queue.")
def orders_queues(driver: Session) -> None:
    """Work behind a wait sees what was written before the event."""
    _orders(driver, 0)


@check(
    "event_wait",
    "host_callback",
    "copy_peer",
    says=WAIT,
    advice="Where the interface has no events across devices, wait on a thread of the driver.",
    devices=2,
)
def orders_queues_of_devices(driver: Session) -> None:
    """The same across devices."""
    _orders(driver, 1)


@check("event_wait", "host_callback", says="Does not wait.", advice="Enqueue the wait and return.")
def waits_do_not_block(driver: Session) -> None:
    """Recording and waiting return while the event is pending."""
    blocked, other = driver.make_queue(), driver.make_queue()
    event = driver.make_event()
    opened = driver.gate(blocked)

    def work() -> None:
        driver.event_record(event, blocked)
        driver.event_wait(other, event)
        driver.event_query(event)

    expect_within(work, opened, "event_wait")


@check(
    "event_record",
    "host_callback",
    says="Recording again moves it; waits already enqueued keep the earlier meaning.",
    advice="Give each recording an object that waits hold, and the event the last one.",
)
def recorded_again(driver: Session) -> None:
    """Earlier waits keep the earlier recording, later ones get the new one."""
    recorded, other, waiting, last = (driver.make_queue() for _ in range(4))
    event = driver.make_event()
    first = driver.gate(recorded)
    driver.event_record(event, recorded)
    driver.event_wait(waiting, event)
    driver.event_record(event, other)  # is done at once
    driver.event_synchronize(event)
    expect(driver.event_query(event), "OK for the new recording", "NOT_READY")
    expect(not driver.queue_query(waiting), "a wait for the earlier recording", "none")
    second = driver.gate(recorded)
    driver.event_record(event, recorded)
    driver.event_wait(last, event)
    first.set()
    driver.queue_synchronize(waiting)  # does not wait for the last recording
    expect(not driver.event_query(event), "NOT_READY for the last recording", "OK")
    expect(not driver.queue_query(last), "a wait for the last recording", "none")
    second.set()
    driver.event_synchronize(event)


@check("event_destroy", "host_callback", says=LIFETIME, advice="Count references to recordings.")
def destroyed_while_pending(driver: Session) -> None:
    """A wait goes on when its event is destroyed."""
    recorded, waiting = driver.make_queue(), driver.make_queue()
    memory, result = driver.make_memory(64), ctypes.create_string_buffer(64)
    event = driver.event_create(0, timing=True)
    opened = driver.gate(recorded)
    driver.fill(recorded, memory, b"a", 64)
    driver.event_record(event, recorded)
    driver.event_wait(waiting, event)
    driver.event_destroy(event)
    again = [driver.make_event() for _ in range(8)]  # in the memory of the destroyed one
    for each in again:
        driver.event_record(each, driver.make_queue())
    driver.copy_device_to_host(waiting, result, memory, 64)
    time.sleep(0.05)
    expect(not driver.queue_query(waiting), "a queue that goes on waiting", "an idle one")
    opened.set()
    driver.queue_synchronize(waiting)
    expect_bytes(result.raw, b"a" * 64, "what was written before the destroyed event")


@check("event_query", says="Events recorded on it stay.", advice="Let events own what they need.")
def outlives_its_queue(driver: Session) -> None:
    """An event works after its queue was destroyed."""
    queue, event = driver.make_queue(), driver.make_event(0, timing=True)
    temporary = driver.queue_create(0)
    if driver.has("host_callback"):
        driver.host_callback(temporary, lambda: time.sleep(0.02))
    driver.event_record(event, temporary)
    driver.queue_destroy(temporary)
    expect(driver.event_query(event), "OK", "NOT_READY")
    driver.event_wait(queue, event)
    driver.queue_synchronize(queue)


@check(
    "event_wait",
    "host_callback",
    says=WAIT,
    advice="Free recordings that have happened; do not keep all waits of a queue.",
    seconds=60,
    direct_only=True,
)
def ten_thousand(driver: Session) -> None:
    """Ten thousand events order work across queues."""
    queues = [driver.make_queue(i % driver.devices) for i in range(4)]
    order: list[int] = []
    events = []
    for i in range(10_000):
        if i % 50 == 0:
            driver.host_callback(queues[i % 4], functools.partial(order.append, i // 50))
        event = driver.event_create(i % 4 % driver.devices)
        driver.event_record(event, queues[i % 4])
        driver.event_wait(queues[(i + 1) % 4], event)
        events.append(event)
    for device in range(min(driver.devices, 4)):
        driver.device_synchronize(device)
    expect(order == list(range(200)), "functions in their order", f"{order[:8]} ...")
    pending = sum(not driver.event_query(event) for event in events)
    expect(pending == 0, "events that have happened", f"{pending} pending ones")
    for event in events:
        driver.event_destroy(event)


@check("event_elapsed", "host_callback", says=ELAPSED, advice="Take times when the work runs.")
def elapsed(driver: Session) -> None:
    """Times are those of the execution and agree with a clock on the wall."""
    queue = driver.make_queue()
    start, end, last = (driver.make_event(timing=True) for _ in range(3))
    done: list[int] = []

    def function() -> None:
        time.sleep(0.3)
        done.append(1)

    before = time.monotonic()
    driver.event_record(start, queue)
    driver.host_callback(queue, function)
    driver.event_record(end, queue)
    driver.event_record(last, queue)
    driver.event_synchronize(end)
    expect(
        done == [1], "a wait that ends after the work", "one before", function="event_synchronize"
    )
    driver.event_synchronize(last)
    wall = 1e3 * (time.monotonic() - before)
    found = driver.event_elapsed(start, end)
    expect(298 <= found <= wall + 2, f"300 to {wall:.0f} ms", f"{found:.3f} ms")
    back = driver.event_elapsed(end, start)
    expect(abs(back + found) <= 1e-3 * found, f"{-found:.3f} ms backwards", f"{back:.3f} ms")
    same = driver.event_elapsed(start, start)
    expect(same == 0, "0 ms from an event to itself", f"{same} ms")
    little = driver.event_elapsed(end, last)
    expect(0 <= little <= wall - 298, f"0 to {wall - 298:.0f} ms without work", f"{little:.3f} ms")


@check(
    "event_time",
    says="When the event happened, in nanoseconds of the host's CLOCK_MONOTONIC, as well as the "
    "device can tell.",
    advice="Compare the device's clock with CLOCK_MONOTONIC now and then.",
)
def time_of_the_host(driver: Session) -> None:
    """Times of events lie between those of the host around them."""
    queue, address = driver.make_queue(), driver.make_memory(1 << 20)
    start, end = driver.make_event(timing=True), driver.make_event(timing=True)
    before = time.monotonic_ns()
    driver.event_record(start, queue)
    driver.fill(queue, address, b"ab", 1 << 20)
    driver.event_record(end, queue)
    driver.event_synchronize(end)
    after = time.monotonic_ns()
    first, last = driver.event_time(start), driver.event_time(end)
    case = f"times between {before} and {after}, in order"
    expect(before - 10**6 <= first <= last <= after + 10**6, case, (first, last))
    elapsed_ns = driver.event_elapsed(start, end) * 1e6
    expect(abs(elapsed_ns - (last - first)) <= 1000, f"{last - first} ns elapsed", elapsed_ns)


@check(
    "event_elapsed",
    says="Both have OB_EVENT_TIMING, were recorded, and are of the same device (checked).",
    advice="Look at the flags, the device and the recording of both events first.",
)
def events_that_cannot_tell(driver: Session) -> None:
    """Events without timing, without recording or of another device have no times."""
    queue = driver.make_queue()
    timed, untimed, never = (driver.make_event(timing=timing) for timing in (True, False, True))
    driver.event_record(timed, queue)
    driver.event_record(untimed, queue)
    driver.queue_synchronize(queue)
    result, nanoseconds = ctypes.c_double(), ctypes.c_uint64()
    wrong = [(timed, untimed), (untimed, timed), (timed, never), (never, timed)]
    if driver.devices > 1:
        elsewhere, other_queue = driver.make_event(1, timing=True), driver.make_queue(1)
        driver.event_record(elsewhere, other_queue)
        driver.queue_synchronize(other_queue)
        wrong.append((timed, elsewhere))
    for pair in wrong:
        driver.refuses(Status.INVALID_ARGUMENT, "event_elapsed", *pair, ctypes.byref(result))
    if driver.has("event_time"):
        for event in (untimed, never):
            driver.refuses(Status.INVALID_ARGUMENT, "event_time", event, ctypes.byref(nanoseconds))


@check(
    "event_elapsed",
    "host_callback",
    says="OB_NOT_READY while one is pending.",
    advice="Ask both events before their times are subtracted.",
)
def times_of_pending_events(driver: Session) -> None:
    """A pending event has no time yet, which is no failure."""
    queue = driver.make_queue()
    timed, pending = driver.make_event(timing=True), driver.make_event(timing=True)
    driver.event_record(timed, queue)
    driver.queue_synchronize(queue)
    driver.gate(queue)
    driver.event_record(pending, queue)
    result, nanoseconds = ctypes.c_double(), ctypes.c_uint64()
    for pair in ((timed, pending), (pending, timed)):
        found = driver.status("event_elapsed", *pair, ctypes.byref(result))
        expect(found == Status.NOT_READY, "NOT_READY", found.name)
    if driver.has("event_time"):
        found = driver.status("event_time", pending, ctypes.byref(nanoseconds))
        expect(found == Status.NOT_READY, "NOT_READY", found.name, function="event_time")


@check(
    "event_record",
    says="The queue is of the event's device (checked).",
    advice="Compare the devices of event and queue first.",
    devices=2,
)
def queue_of_another_device(driver: Session) -> None:
    """An event is not recorded on a queue of another device."""
    event, queue = driver.make_event(0), driver.make_queue(1)
    driver.refuses(Status.INVALID_ARGUMENT, "event_record", event, queue)


@check(
    "event_synchronize",
    "host_callback",
    says="Waits until it has happened.",
    advice="Wait for the recording that the event had when the call began, without a lock.",
)
def synchronize_waits(driver: Session) -> None:
    """A wait for an event ends after its work, and stops no other thread."""
    queue, event = driver.make_queue(), driver.make_event()
    opened = driver.gate(queue)
    driver.event_record(event, queue)
    thread = threading.Thread(target=driver.event_synchronize, args=(event,), daemon=True)
    thread.start()
    time.sleep(0.1)
    early = not thread.is_alive()
    expect_within(lambda: driver.event_query(event), opened, "event_query")
    ended = ends(thread, 10)
    expect(not early, "a wait for the work before the event", "a return before")
    expect(ended, "a return when the event has happened", "none in 10 seconds")
