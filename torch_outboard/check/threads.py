"""Many threads at once: allocations, queues, messages."""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import NotTestable
from torch_outboard.check.session import Session, expect, expect_bytes, expect_equal, in_threads
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

ANY_THREAD = (
    "Unless a comment says otherwise, any function may be called from any thread at any time, "
    "several at once, also on the same queue"
)
THREADS = 8


@check("allocate", says=ANY_THREAD, advice="Take one lock around the tables of allocations.")
def allocations(driver: Session) -> None:
    """Eight threads that allocate and free never get the same bytes, and lose none."""
    lock, live = threading.Lock(), dict[int, int]()
    size = max(driver.budget // (4 * THREADS) // 4096, 1) * 4096
    turn = threading.Barrier(THREADS)

    def work(number: int) -> None:
        queue = driver.queue_create(0)
        for round_ in range(30):
            mine = size // (1 + (number + round_) % 3)
            turn.wait(30)  # all allocate at once
            address = driver.allocate(0, mine)
            with lock:
                taken = [a for a, n in live.items() if a < address + mine and address < a + n]
                live[address] = mine
            expect(not taken, "bytes that no other thread has", f"{address:#x}, taken: {taken}")
            turn.wait(30)  # all have theirs
            pattern = bytes([number + 1])
            driver.fill(queue, address, pattern, min(mine, 4096))
            found = driver.read(queue, address, min(mine, 4096))
            expect_bytes(found, pattern * len(found), f"memory of thread {number}")
            with lock:
                del live[address]
            driver.deallocate(0, address)
        driver.queue_destroy(queue)

    in_threads(work, THREADS, turn)


@check(
    says="The message of the calling thread's last failed call; never NULL, valid until that "
    "thread's next call.",
    advice="Keep the message in a _Thread_local or thread_local buffer.",
)
def messages(driver: Session) -> None:
    """A thread's message stays while other threads fail and while they succeed."""
    first, second = _different_failures(driver)
    turn = threading.Barrier(THREADS)

    def work(number: int) -> None:
        for _ in range(10):
            if number % 2 == 0:
                first()
                mine = driver.last_error()
            turn.wait(30)  # half of the threads have failed, and have read their messages
            if number % 2 == 1:
                second()
                driver.device_properties(0)
            turn.wait(30)  # the others have failed otherwise since
            if number % 2 == 0:
                later = driver.last_error()
                expect_equal(later, mine, f"the message of thread {number}", function="last_error")

    in_threads(work, THREADS, turn)


def _different_failures(driver: Session) -> list[Callable[[], None]]:
    """Two failures whose messages differ."""
    total = driver.device_properties(0).total_memory

    def fails(call: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            try:
                call()
            except DriverError:
                return
            expect(False, "a failure", "OK", function="allocate")

        return run

    calls = (lambda: driver.allocate(0, total + 1), lambda: driver.queue_create(driver.devices))
    found: dict[str, Callable[[], None]] = {}
    for call in calls:
        fails(call)()
        found[driver.last_error()] = fails(call)
    if len(found) < 2:
        raise NotTestable(f"different failures have the same message: {next(iter(found))!r}")
    return list(found.values())


@check(
    says="The message of the calling thread's last failed call; never NULL",
    advice="Keep the message in a _Thread_local or thread_local buffer.",
)
def message_of_another_thread(driver: Session) -> None:
    """A thread in which nothing failed does not get the message of another."""
    with driver.failing(Status.INVALID_ARGUMENT, "queue_create", "an unknown device"):
        driver.queue_create(driver.devices)
    mine = driver.last_error()
    (other,) = in_threads(lambda _: driver.driver.last_error(driver.driver.context), 1)
    expect(
        (other or b"").decode(errors="replace") != mine,
        "no message of this thread's in another one",
        repr(other),
        function="last_error",
    )


@check(
    "copy_host_to_device",
    says="the order of work on a queue is then the order in which the calls returned",
    advice="Take the queue's lock while work is appended.",
)
def one_queue(driver: Session) -> None:
    """Four threads copy on one queue, each its own memory."""
    queue = driver.make_queue()
    addresses = [driver.make_memory(20_000) for _ in range(4)]

    def work(number: int) -> None:
        for round_ in range(40):
            sent = bytes([(number * 37 + round_) % 256]) * 20_000
            driver.copy_host_to_device(queue, addresses[number], sent, 20_000)
            found = driver.read(queue, addresses[number], 20_000)
            expect_bytes(found, sent, f"round {round_} of thread {number}")

    in_threads(work, 4)


@check("queue_create", says=ANY_THREAD, advice="Take one lock around the list of queues.")
def own_queues(driver: Session) -> None:
    """Eight threads create, use and destroy queues of their own."""
    address = driver.make_memory(1 << 16)

    def work(number: int) -> None:
        part = address + number * 4096
        for _ in range(20):
            queue = driver.queue_create(0)
            driver.fill(queue, part, bytes([number]), 4096)
            found = driver.read(queue, part, 4096)
            expect_bytes(found, bytes([number]) * 4096, f"memory of thread {number}")
            driver.queue_destroy(queue)

    in_threads(work, THREADS)


@check("event_record", says=ANY_THREAD, advice="Replace the recording of an event under its lock.")
def one_event(driver: Session) -> None:
    """Four threads record, await and query one event."""
    queues = [driver.make_queue() for _ in range(4)]
    event = driver.make_event(timing=True)

    def work(number: int) -> None:
        for _ in range(200):
            driver.event_record(event, queues[number])
            driver.event_wait(queues[(number + 1) % 4], event)
            driver.event_query(event)

    in_threads(work, 4)
    driver.device_synchronize(0)
    expect(driver.event_query(event), "an event that has happened", "a pending one")


@check(
    "device_properties",
    says=ANY_THREAD,
    advice="Fill properties without state that calls share, or take a lock.",
)
def properties(driver: Session) -> None:
    """Eight threads read the properties of all devices, and get the same."""
    wanted = [bytes(driver.device_properties(device)) for device in range(driver.devices)]

    def work(number: int) -> None:
        for round_ in range(50):
            device = (number + round_) % driver.devices
            found = contract.described(contract.DeviceProperties)
            status = driver.status("device_properties", device, found)
            expect_equal(status, Status.OK, "the status")
            expect_bytes(bytes(found), wanted[device], f"properties of device {device}")

    in_threads(work, THREADS)
