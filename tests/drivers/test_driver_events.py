"""Events: order across queues, meaning of recording again, timing, lifetime."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from driver_support import DriverUnderTest, assert_bytes

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

Gate = Callable[[int], threading.Event]
Make = Callable[..., int]


def test_never_recorded_is_done(driver: DriverUnderTest, queue: int, make_event: Make) -> None:
    event = make_event()
    assert driver.event_query(event)
    driver.event_synchronize(event)
    driver.event_wait(queue, event)
    assert driver.queue_query(queue)


def test_stands_for_work_so_far(
    driver: DriverUnderTest, queue: int, make_event: Make, gate: Gate
) -> None:
    first, second = make_event(), make_event()
    opened = gate(queue)
    driver.event_record(first, queue)
    gate(queue)
    driver.event_record(second, queue)
    assert not driver.event_query(first)
    opened.set()
    driver.event_synchronize(first)
    assert driver.event_query(first)
    assert not driver.event_query(second)


def test_synchronize_waits(driver: DriverUnderTest, queue: int, make_event: Make) -> None:
    event = make_event()
    done: list[int] = []
    driver.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    driver.event_record(event, queue)
    driver.event_synchronize(event)
    assert done == [1]


@pytest.mark.parametrize("device", [0, 1])
def test_orders_queues(
    driver: DriverUnderTest,
    make_queue: Make,
    make_event: Make,
    make_memory: Make,
    gate: Gate,
    device: int,
) -> None:
    producer, consumer = make_queue(0), make_queue(device)
    source, target = make_memory(1 << 16), make_memory(1 << 16, device=device)
    event = make_event()
    opened = gate(producer)
    driver.fill(producer, source, b"ab", 1 << 16)
    driver.event_record(event, producer)
    driver.event_wait(consumer, event)
    driver.copy_peer(consumer, device, target, 0, source, 1 << 16)
    time.sleep(0.02)
    assert not driver.queue_query(consumer)
    opened.set()
    assert_bytes(driver.read(consumer, target, 1 << 16), b"ab" * (1 << 15))


def test_recording_again_keeps_earlier_waits(
    driver: DriverUnderTest, make_queue: Make, make_event: Make, gate: Gate
) -> None:
    recorded, waiting = make_queue(), make_queue()
    event = make_event()
    first = gate(recorded)
    driver.event_record(event, recorded)
    driver.event_wait(waiting, event)
    second = gate(recorded)
    driver.event_record(event, recorded)
    first.set()
    driver.queue_synchronize(waiting)  # does not wait for the second recording
    assert not driver.event_query(event)
    second.set()
    driver.event_synchronize(event)


def test_recording_again_on_another_queue(
    driver: DriverUnderTest, make_queue: Make, make_event: Make, gate: Gate
) -> None:
    blocked, free, waiting = make_queue(), make_queue(), make_queue()
    event = make_event()
    opened = gate(blocked)
    driver.event_record(event, blocked)
    driver.event_wait(waiting, event)
    driver.event_record(event, free)
    driver.event_synchronize(event)
    assert driver.event_query(event)
    assert not driver.queue_query(waiting)
    opened.set()
    driver.queue_synchronize(waiting)


def test_destroyed_while_pending(driver: DriverUnderTest, make_queue: Make, gate: Gate) -> None:
    recorded, waiting = make_queue(), make_queue()
    event = driver.event_create(0, timing=True)
    opened = gate(recorded)
    driver.event_record(event, recorded)
    driver.event_wait(waiting, event)
    driver.event_destroy(event)
    assert not driver.queue_query(waiting)
    opened.set()
    driver.queue_synchronize(waiting)


def test_outlives_its_queue(driver: DriverUnderTest, queue: int, make_event: Make) -> None:
    event = make_event(0, timing=True)
    temporary = driver.queue_create(0)
    driver.host_callback(temporary, lambda: time.sleep(0.02))
    driver.event_record(event, temporary)
    driver.queue_destroy(temporary)
    assert driver.event_query(event)
    driver.event_wait(queue, event)
    driver.queue_synchronize(queue)


def test_ten_thousand_across_queues(
    driver: DriverUnderTest, make_queue: Make, make_memory: Make
) -> None:
    driver.need("host_callback")
    driver.need_device(1)
    if driver.torture is not None:
        driver.torture.configure(delay_us=0)
    queues = [make_queue(i % 2) for i in range(4)]
    counter = [0]
    wrong: list[int] = []

    def expect(value: int) -> None:
        if counter[0] != value:
            wrong.append(value)
        counter[0] += 1

    events = []
    for i in range(10_000):
        if i % 50 == 0:
            driver.host_callback(queues[i % 4], lambda value=i // 50: expect(value))
        event = driver.event_create(i % 2)
        driver.event_record(event, queues[i % 4])
        driver.event_wait(queues[(i + 1) % 4], event)
        events.append(event)
    driver.device_synchronize(0)
    driver.device_synchronize(1)
    assert wrong == []
    assert counter == [200]
    assert all(driver.event_query(event) for event in events)
    for event in events:
        driver.event_destroy(event)
    if driver.torture is not None:
        driver.torture.configure(delay_us=200)


def test_elapsed(driver: DriverUnderTest, queue: int, make_event: Make) -> None:
    start, end = make_event(timing=True), make_event(timing=True)
    driver.event_record(start, queue)
    driver.host_callback(queue, lambda: time.sleep(0.05))
    driver.event_record(end, queue)
    driver.event_synchronize(end)
    elapsed = driver.event_elapsed(start, end)
    assert 50 <= elapsed < 20_000
    assert driver.event_elapsed(end, start) == pytest.approx(-elapsed)
    assert driver.event_elapsed(start, start) == 0


def test_time_is_taken_at_execution(driver: DriverUnderTest, queue: int, make_event: Make) -> None:
    start, end = make_event(timing=True), make_event(timing=True)
    driver.host_callback(queue, lambda: time.sleep(0.5))
    driver.event_record(start, queue)
    driver.event_record(end, queue)
    driver.event_synchronize(end)
    assert 0 <= driver.event_elapsed(start, end) < 400


def test_time_is_that_of_the_host(
    driver: DriverUnderTest, queue: int, make_event: Make, make_memory: Make
) -> None:
    driver.need("event_time")
    start, end = make_event(timing=True), make_event(timing=True)
    address = make_memory(1 << 20)
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


def test_time_of_events_that_cannot_tell(
    driver: DriverUnderTest, queue: int, make_event: Make, gate: Gate
) -> None:
    driver.need("event_time")
    untimed, never, pending = make_event(), make_event(timing=True), make_event(timing=True)
    driver.event_record(untimed, queue)
    driver.queue_synchronize(queue)
    for event in (untimed, never):
        with pytest.raises(DriverError) as error:
            driver.event_time(event)
        assert error.value.status == Status.INVALID_ARGUMENT
    gate(queue)
    driver.event_record(pending, queue)
    assert driver.status("event_time", pending, None) == Status.NOT_READY


def test_elapsed_while_pending(
    driver: DriverUnderTest, queue: int, make_event: Make, gate: Gate
) -> None:
    start, end = make_event(timing=True), make_event(timing=True)
    driver.event_record(start, queue)
    driver.event_synchronize(start)
    gate(queue)
    driver.event_record(end, queue)
    assert driver.status("event_elapsed", start, end, None) == Status.NOT_READY
    assert driver.status("event_elapsed", end, start, None) == Status.NOT_READY


def test_elapsed_of_events_that_cannot_tell(
    driver: DriverUnderTest, make_queue: Make, make_event: Make
) -> None:
    queue, other_queue = make_queue(0), make_queue(1)
    timed, untimed, never = make_event(timing=True), make_event(), make_event(timing=True)
    elsewhere = make_event(1, timing=True)
    driver.event_record(timed, queue)
    driver.event_record(untimed, queue)
    driver.event_record(elsewhere, other_queue)
    driver.queue_synchronize(queue)
    driver.queue_synchronize(other_queue)
    for start, end in [(timed, untimed), (untimed, timed), (timed, never), (timed, elsewhere)]:
        with pytest.raises(DriverError) as error:
            driver.event_elapsed(start, end)
        assert error.value.status == Status.INVALID_ARGUMENT


def test_recorded_on_a_queue_of_another_device(
    driver: DriverUnderTest, make_queue: Make, make_event: Make
) -> None:
    with pytest.raises(DriverError, match="device") as error:
        driver.event_record(make_event(0), make_queue(1))
    assert error.value.status == Status.INVALID_ARGUMENT


def test_many_threads_record_and_query_one_event(
    driver: DriverUnderTest, make_queue: Make, make_event: Make
) -> None:
    queues = [make_queue() for _ in range(4)]
    event = make_event(timing=True)

    def work(i: int) -> None:
        for _ in range(200):
            driver.event_record(event, queues[i])
            driver.event_wait(queues[(i + 1) % 4], event)
            driver.event_query(event)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    driver.device_synchronize(0)
    assert driver.event_query(event)
