"""Failed work: reported once, by the queue it was on, and nothing else suffers."""

from __future__ import annotations

from collections.abc import Callable

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import NotTestable
from torch_outboard.check.session import Session, expect, expect_bytes
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

ONCE = (
    "Reports a failure of asynchronous work on this queue, once; then the queue is as good as new."
)
ADVICE = "Keep the first failure of each queue, and return it from the next queue_synchronize."


def _fail(driver: Session, queue: int) -> None:
    """Enqueues work that fails."""
    if not driver.has("inject_failure"):
        raise NotTestable("the driver has no `inject_failure`, by which checks make work fail")
    try:
        driver.inject_failure(queue)
    except DriverError as error:
        if error.status == Status.UNSUPPORTED:
            raise NotTestable(f"`inject_failure` is not supported: {error.message}") from error
        raise


def _expect_failure(driver: Session, queue: int) -> None:
    status = driver.status("queue_synchronize", queue)
    expect(
        status not in (Status.OK, Status.NOT_READY),
        "a failure of the work that `inject_failure` enqueued",
        status.name,
        function="queue_synchronize",
    )
    message = driver.last_error()
    expect(message, "a message of the failure", "an empty one", function="last_error")


@check("queue_synchronize", says=ONCE, advice=ADVICE)
def reported_once(driver: Session) -> None:
    """`queue_synchronize` reports failed work, once, and the queue goes on to work."""
    queue, memory = driver.make_queue(), driver.make_memory(4096)
    for _ in range(2):
        driver.fill(queue, memory, b"a", 4096)
        _fail(driver, queue)
        _expect_failure(driver, queue)
        driver.queue_synchronize(queue)
        driver.fill(queue, memory, b"b", 4096)
        found = driver.read(queue, memory, 4096)
        expect_bytes(found, b"b" * 4096, "a fill after the failure was reported")


@check("queue_synchronize", says=ONCE, advice=ADVICE)
def of_one_queue(driver: Session) -> None:
    """A failure is reported by its queue, not by another one."""
    failed, other = driver.make_queue(), driver.make_queue()
    memory = driver.make_memory(4096)
    _fail(driver, failed)
    driver.fill(other, memory, b"a", 4096)
    driver.queue_synchronize(other)
    _expect_failure(driver, failed)


@check("queue_destroy", says="reports a failure like queue_synchronize", advice=ADVICE)
def reported_at_the_end(driver: Session) -> None:
    """`queue_destroy` reports what was not reported before."""
    queue = driver.queue_create(0)
    _fail(driver, queue)
    status = driver.status("queue_destroy", queue)
    expect(status not in (Status.OK, Status.NOT_READY), "a failure", status.name)


@check(
    "event_synchronize",
    says="events recorded behind it happen either way, so that no wait lasts for ever",
    advice="Complete events behind failed work, too.",
)
def events_behind(driver: Session) -> None:
    """Events behind failed work happen, and queues that wait for them go on."""
    queue, other = driver.make_queue(), driver.make_queue()
    memory = driver.make_memory(4096)
    event = driver.make_event()
    _fail(driver, queue)
    driver.event_record(event, queue)
    driver.event_wait(other, event)
    driver.fill(other, memory, b"a", 4096)
    driver.event_synchronize(event)
    found = driver.read(other, memory, 4096)
    expect_bytes(found, b"a" * 4096, "work of a queue that waited for the event")
    _expect_failure(driver, queue)


@check(
    "allocate",
    says="On anything but OB_OK and OB_NOT_READY the driver keeps a message for the calling thread",
    advice="Store a sentence in thread-local memory before every such return.",
)
def every_failure_has_a_message(driver: Session) -> None:
    """Calls that fail leave a message."""
    total = driver.device_properties(0).total_memory
    calls: tuple[tuple[str, Callable[[], int]], ...] = (
        ("queue_create", lambda: driver.queue_create(driver.devices + 7)),
        ("allocate", lambda: driver.allocate(0, total + 1)),
        ("event_create", lambda: driver.event_create(-1)),
        ("allocate", lambda: driver.allocate(0, 0)),
    )
    for name, call in calls:
        try:
            call()
        except DriverError as error:
            expect(error.message, "a message", "an empty one", function="last_error")
            continue
        expect(False, "a failure", "OK", function=name)
