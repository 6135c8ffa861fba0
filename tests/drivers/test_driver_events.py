"""Events: order across queues, meaning of recording again, timing, lifetime."""

import time

import pytest
from driver_support import DriverUnderTest, assert_bytes, fails_with

from tests.support import in_threads
from torch_outboard.drivers.contract import Status


def test_never_recorded_is_done(driver: DriverUnderTest, queue: int) -> None:
    event = driver.make_event()
    assert driver.event_query(event)
    driver.event_synchronize(event)
    driver.event_wait(queue, event)
    assert driver.queue_query(queue)


def test_stands_for_work_so_far(driver: DriverUnderTest, queue: int) -> None:
    first, second = driver.make_event(), driver.make_event()
    opened = driver.gate(queue)
    driver.event_record(first, queue)
    driver.gate(queue)
    driver.event_record(second, queue)
    assert not driver.event_query(first)
    opened.set()
    driver.event_synchronize(first)
    assert driver.event_query(first)
    assert not driver.event_query(second)


@pytest.mark.parametrize("device", [0, 1])
def test_orders_queues(driver: DriverUnderTest, device: int) -> None:
    producer, consumer = driver.make_queue(0), driver.make_queue(device)
    source, target = driver.make_memory(1 << 16), driver.make_memory(1 << 16, device=device)
    event = driver.make_event()
    opened = driver.gate(producer)
    driver.fill(producer, source, b"ab", 1 << 16)
    driver.event_record(event, producer)
    driver.event_wait(consumer, event)
    driver.copy_peer(consumer, device, target, 0, source, 1 << 16)
    time.sleep(0.02)
    assert not driver.queue_query(consumer)
    opened.set()
    assert_bytes(driver.read(consumer, target, 1 << 16), b"ab" * (1 << 15))


def test_recording_again_keeps_earlier_waits(driver: DriverUnderTest) -> None:
    recorded, other, waiting, last = (driver.make_queue() for _ in range(4))
    event = driver.make_event()
    first = driver.gate(recorded)
    driver.event_record(event, recorded)
    driver.event_wait(waiting, event)
    driver.event_record(event, other)  # is done at once
    driver.event_synchronize(event)
    assert driver.event_query(event)
    assert not driver.queue_query(waiting)
    second = driver.gate(recorded)
    driver.event_record(event, recorded)
    driver.event_wait(last, event)
    first.set()
    driver.queue_synchronize(waiting)  # does not wait for the last recording
    assert not driver.event_query(event)
    assert not driver.queue_query(last)
    second.set()
    driver.event_synchronize(event)


def test_destroyed_while_pending(driver: DriverUnderTest) -> None:
    recorded, waiting = driver.make_queue(), driver.make_queue()
    event = driver.event_create(0, timing=True)
    opened = driver.gate(recorded)
    driver.event_record(event, recorded)
    driver.event_wait(waiting, event)
    driver.event_destroy(event)
    assert not driver.queue_query(waiting)
    opened.set()
    driver.queue_synchronize(waiting)


def test_outlives_its_queue(driver: DriverUnderTest, queue: int) -> None:
    event, temporary = driver.make_event(0, timing=True), driver.queue_create(0)
    driver.host_callback(temporary, lambda: time.sleep(0.02))
    driver.event_record(event, temporary)
    driver.queue_destroy(temporary)
    assert driver.event_query(event)
    driver.event_wait(queue, event)
    driver.queue_synchronize(queue)


def test_ten_thousand_across_queues(driver: DriverUnderTest) -> None:
    driver.need("host_callback")
    driver.need_device(1)
    if driver.faults is not None:
        driver.faults.configure(delay_us=0)
    queues = [driver.make_queue(i % 2) for i in range(4)]
    order: list[int] = []
    events = []
    for i in range(10_000):
        if i % 50 == 0:
            driver.host_callback(queues[i % 4], lambda value=i // 50: order.append(value))
        event = driver.event_create(i % 2)
        driver.event_record(event, queues[i % 4])
        driver.event_wait(queues[(i + 1) % 4], event)
        events.append(event)
    driver.device_synchronize(0)
    driver.device_synchronize(1)
    assert order == list(range(200))
    assert all(driver.event_query(event) for event in events)
    for event in events:
        driver.event_destroy(event)
    if driver.faults is not None:
        driver.faults.configure(delay_us=200)


def test_elapsed(driver: DriverUnderTest, queue: int) -> None:
    """Times are those of the execution, and a wait for an event ends after its work."""
    start, end, last = (driver.make_event(timing=True) for _ in range(3))
    done: list[int] = []
    driver.event_record(start, queue)
    driver.host_callback(queue, lambda: (time.sleep(0.3), done.append(1)))
    driver.event_record(end, queue)
    driver.event_record(last, queue)
    driver.event_synchronize(end)
    assert done == [1]
    driver.event_synchronize(last)
    elapsed = driver.event_elapsed(start, end)
    assert 300 <= elapsed < 20_000
    assert driver.event_elapsed(end, start) == pytest.approx(-elapsed)
    assert driver.event_elapsed(start, start) == 0
    assert 0 <= driver.event_elapsed(end, last) < 250


def test_time_is_that_of_the_host(driver: DriverUnderTest, queue: int) -> None:
    driver.need("event_time")
    start, end = driver.make_event(timing=True), driver.make_event(timing=True)
    address = driver.make_memory(1 << 20)
    before = time.monotonic_ns()
    driver.event_record(start, queue)
    driver.fill(queue, address, b"ab", 1 << 20)
    driver.event_record(end, queue)
    driver.event_synchronize(end)
    after = time.monotonic_ns()
    tolerance = 0 if driver.name == "host" else 1_000_000
    first, last = driver.event_time(start), driver.event_time(end)
    assert before - tolerance <= first <= last <= after + tolerance
    assert driver.event_elapsed(start, end) * 1e6 == pytest.approx(last - first, abs=100)


def test_events_that_cannot_tell(driver: DriverUnderTest, queue: int) -> None:
    timed, untimed, never = (driver.make_event(timing=timing) for timing in (True, False, True))
    driver.event_record(timed, queue)
    driver.event_record(untimed, queue)
    driver.queue_synchronize(queue)
    wrong = [("event_elapsed", pair) for pair in ((timed, untimed), (untimed, timed))]
    wrong.append(("event_elapsed", (timed, never)))
    if driver.has("event_time"):
        wrong += [("event_time", (untimed,)), ("event_time", (never,))]
    if driver.devices > 1:
        elsewhere, other_queue = driver.make_event(1, timing=True), driver.make_queue(1)
        driver.event_record(elsewhere, other_queue)
        driver.queue_synchronize(other_queue)
        wrong.append(("event_elapsed", (timed, elsewhere)))
    for name, events in wrong:
        with fails_with(Status.INVALID_ARGUMENT):
            getattr(driver, name)(*events)
    driver.gate(queue)
    driver.event_record(never, queue)
    assert driver.status("event_elapsed", timed, never, None) == Status.NOT_READY
    assert driver.status("event_elapsed", never, timed, None) == Status.NOT_READY
    if driver.has("event_time"):
        assert driver.status("event_time", never, None) == Status.NOT_READY


def test_recorded_on_a_queue_of_another_device(driver: DriverUnderTest) -> None:
    with fails_with(Status.INVALID_ARGUMENT, "device"):
        driver.event_record(driver.make_event(0), driver.make_queue(1))


def test_many_threads_record_and_query_one_event(driver: DriverUnderTest) -> None:
    queues = [driver.make_queue() for _ in range(4)]
    event = driver.make_event(timing=True)

    def work(i: int) -> None:
        for _ in range(200):
            driver.event_record(event, queues[i])
            driver.event_wait(queues[(i + 1) % 4], event)
            driver.event_query(event)

    in_threads(work, 4)
    driver.device_synchronize(0)
    assert driver.event_query(event)
