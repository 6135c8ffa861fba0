"""FaultInjection: every kind of fault happens, and every kind of misuse is noticed."""

import contextlib
import ctypes
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from driver_support import DriverUnderTest, fails_with

from tests.support import in_threads
from torch_outboard.drivers import contract, faults, host
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_live_objects(faulty: DriverUnderTest) -> None:
    live = faulty.faults.live
    nothing = live()
    assert set(nothing.values()) == {0}
    queue, event = faulty.queue_create(0), faulty.event_create(1)
    address, pinned = faulty.allocate(1, 12345), faulty.host_allocate(64)
    faulty.graph_begin(queue)
    graph = faulty.graph_end(queue)
    made = dict.fromkeys(("allocations", "pinned", "queues", "events", "graphs"), 1)
    assert live() == nothing | made
    leaks = faulty.faults.leaks()
    assert len(leaks) == 5
    assert f"allocations 0x{address:x} device 1 12345 bytes" in leaks
    faulty.queue_destroy(queue)
    faulty.event_destroy(event)
    faulty.deallocate(1, address)
    faulty.host_deallocate(pinned)
    faulty.graph_release(graph)
    assert live() == nothing
    assert faulty.faults.injected() == faulty.faults.misuses() == 0


def test_delayed_work(faulty: DriverUnderTest) -> None:
    """A synchronization that was forgotten shows."""
    queue = faulty.queue_create(0)
    address = faulty.allocate(0, 4096)
    host = ctypes.create_string_buffer(b"?", 1)
    event = faulty.event_create(0)
    faulty.fill(queue, address, b"a", 1)
    faulty.faults.configure(delay_us=300_000)
    enqueue = timed(lambda: faulty.copy_device_to_host(queue, host, address, 1))
    faulty.event_record(event, queue)
    assert enqueue < 0.25
    assert host.raw == b"?"
    assert not faulty.queue_query(queue)
    assert not faulty.event_query(event)
    assert timed(lambda: faulty.queue_synchronize(queue)) > 0.3  # the copy and the recording
    assert host.raw == b"a"
    faulty.faults.configure(delay_us=0)
    faulty.fill(queue, address, b"a", 1)
    assert faulty.queue_query(queue)


def test_slow_calls(faulty: DriverUnderTest) -> None:
    faulty.faults.configure(slow={"memory_info": 200_000})
    assert timed(lambda: faulty.memory_info(0)) >= 0.2
    assert timed(faulty.device_count) < 0.2
    faulty.faults.configure(slow={"*": 100_000})
    assert timed(faulty.device_count) >= 0.1
    faulty.faults.reset()
    assert timed(faulty.device_count) < 0.1


def test_memory_limit(faulty: DriverUnderTest) -> None:
    faulty.faults.configure(limit=1 << 20)
    first = faulty.allocate(0, 1 << 19)
    with fails_with(Status.OUT_OF_MEMORY, "limits device 0 to 1048576 bytes"):
        faulty.allocate(0, (1 << 19) + 1)
    assert faulty.memory_info(0) == (1 << 19, 1 << 20)
    second = faulty.allocate(1, 1 << 20)
    faulty.deallocate(0, first)
    third = faulty.allocate(0, 1 << 20)
    faulty.faults.configure(limit=0)
    faulty.deallocate(0, third)
    faulty.deallocate(1, second)
    assert faulty.memory_info(0)[1] > 1 << 20


@pytest.mark.parametrize(
    ("repeat", "expected"),
    [(False, [3]), (True, [3, 4, 5, 6, 7]), ("every", [3, 6])],
)
def test_nth_call_fails(faulty: DriverUnderTest, repeat: bool | str, expected: list[int]) -> None:
    faulty.faults.fail("allocate", 3, "out_of_memory", repeat)
    statuses = []
    for _ in range(7):
        address = contract.Address()
        wanted = contract.described(contract.Allocation, device=0, bytes=64)
        statuses.append(faulty.status("allocate", wanted, ctypes.byref(address)))
    failed = [i for i, status in enumerate(statuses, 1) if status == Status.OUT_OF_MEMORY]
    assert failed == expected
    assert faulty.faults.injected() == len(expected)
    assert faulty.faults.live()["allocations"] == 7 - len(expected)


def test_any_status_and_any_function(faulty: DriverUnderTest) -> None:
    for status in list(Status)[2:]:
        faulty.faults.fail("memory_info", status=status.name.lower())
        with fails_with(status, "Fault injection made this call of memory_info fail"):
            faulty.memory_info(0)
        faulty.faults.fail("memory_info", status=int(status))
        assert faulty.status("memory_info", 0, None, None) == status
    faulty.faults.fail("*", 2)
    faulty.device_count()
    with pytest.raises(DriverError, match="memory_info"):
        faulty.memory_info(0)
    # Ours does not hide the driver's message.
    with pytest.raises(DriverError, match="host driver has 2 devices"):
        faulty.memory_info(9)


def test_what_a_failed_call_has_done(faulty: DriverUnderTest) -> None:
    """Failed creation creates nothing; failed waits waited, and failed destruction destroyed."""
    queue, event = faulty.queue_create(0), faulty.event_create(0)
    address = faulty.allocate(0, 4096)
    faulty.write(queue, address, b"a" * 64)
    done: list[int] = []
    faulty.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    calls: list[tuple[str, Callable[[], object], int]] = [
        ("queue_synchronize", lambda: faulty.queue_synchronize(queue), 0),
        ("fill", lambda: faulty.fill(queue, address, b"b", 64), 0),
        ("allocate", lambda: faulty.allocate(0, 64), 0),
        ("event_create", lambda: faulty.event_create(0), 0),
        ("event_destroy", lambda: faulty.event_destroy(event), -1),
        ("deallocate", lambda: faulty.deallocate(0, address), -1),
        ("graph_begin", lambda: faulty.graph_begin(queue), 0),
        ("queue_destroy", lambda: faulty.queue_destroy(queue), -1),
    ]
    for name, call, change in calls:
        before = sum(faulty.faults.live().values())
        faulty.faults.fail(name, status="device_lost")
        with fails_with(Status.DEVICE_LOST, name):
            call()
        assert sum(faulty.faults.live().values()) == before + change, name
        assert done == [1]
        if name == "event_create":
            assert faulty.read(queue, address, 64) == b"a" * 64


def test_lies_answer_ok_and_do_nothing(faulty: DriverUnderTest) -> None:
    queue = faulty.queue_create(0)
    address = faulty.allocate(0, 64)
    faulty.fill(queue, address, b"a", 64)
    faulty.faults.lie("fill", 2)
    faulty.fill(queue, address, b"b", 64)
    faulty.fill(queue, address, b"c", 64)
    assert faulty.read(queue, address, 64) == b"b" * 64
    assert faulty.faults.injected() == 1
    before = faulty.faults.live()
    faulty.faults.lie("queue_create", repeat=True)
    for _ in range(2):
        assert not faulty.queue_create(0)
    faulty.faults.lie("deallocate")
    faulty.deallocate(0, address)
    assert faulty.faults.live() == before


def test_misuse(faulty: DriverUnderTest) -> None:
    queue, event = faulty.queue_create(0), faulty.event_create(0)
    address, pinned = faulty.allocate(0, 4096), faulty.host_allocate(64)
    elsewhere = faulty.allocate(1, 4096)
    host = ctypes.create_string_buffer(8192)
    dead_queue, dead_event = faulty.queue_create(0), faulty.event_create(0)
    dead = faulty.allocate(0, 4096)
    faulty.queue_destroy(dead_queue)
    faulty.event_destroy(dead_event)
    faulty.deallocate(0, dead)
    faulty.host_deallocate(pinned)
    wrong_calls = [
        ("deallocate", 0, dead),
        ("deallocate", 0, address + 1),
        ("host_deallocate", pinned),
        ("queue_destroy", dead_queue),
        ("queue_synchronize", dead_queue),
        ("queue_query", dead_queue),
        ("event_destroy", dead_event),
        ("event_record", dead_event, queue),
        ("event_record", event, dead_queue),
        ("event_wait", queue, dead_event),
        ("event_query", dead_event),
        ("copy_host_to_device", dead_queue, address, host, 16),
        ("copy_host_to_device", queue, dead, host, 16),
        ("copy_host_to_device", queue, address + 4090, host, 16),
        ("copy_host_to_device", queue, elsewhere, host, 16),
        ("copy_device_to_host", queue, host, ctypes.addressof(host), 16),
        ("copy_device_to_device", queue, address, dead, 16),
        ("copy_peer", queue, 1, address, 0, address, 16),
        ("copy_host_to_device_2d", queue, address, 4096, host, 4096, 16, 2),
        ("fill", queue, dead, host, 1, 16),
        ("graph_launch", queue, dead_event),
        ("graph_release", dead_event),
        ("host_unregister", pinned),
        ("memory_export", 0, address + 64, None),
        ("memory_close", 0, address),
    ]
    for i, (name, *arguments) in enumerate(wrong_calls, 1):
        assert faulty.status(name, *arguments) == Status.INVALID_ARGUMENT, (name, arguments)
        assert faulty.faults.misuses() == i, faulty.last_error()


def test_lost_device(faulty: DriverUnderTest) -> None:
    queue, other = faulty.queue_create(0), faulty.queue_create(1)
    event, address = faulty.event_create(0, timing=True), faulty.allocate(0, 64)
    done: list[int] = []
    faulty.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    faulty.faults.lose(0, 2)
    assert not faulty.queue_query(queue)
    for name, *arguments in (
        ("fill", queue, address, b"a", 64),
        ("queue_query", queue),
        ("queue_synchronize", queue),
        ("device_synchronize", 0),
        ("event_record", event, queue),
        ("event_query", event),
        ("event_create", 0),
        ("queue_create", 0),
        ("allocate", 0, 64),
    ):
        with fails_with(Status.DEVICE_LOST, "Fault injection has lost device 0"):
            getattr(faulty, name)(*arguments)
    assert done == [1]  # nothing is pending on a lost device
    assert faulty.faults.injected() == 1
    faulty.fill(other, faulty.allocate(1, 64), b"a", 64)
    # Functions that release work, and all has to be released before a reset.
    with pytest.raises(DriverError, match=r"cannot be reset: .* is among its live allocations"):
        faulty.device_reset(0)
    faulty.deallocate(0, address)
    faulty.device_reset(0)
    address = faulty.allocate(0, 64)
    faulty.fill(queue, address, b"a", 64)
    faulty.event_record(event, queue)
    assert faulty.read(queue, address, 64) == b"a" * 64
    faulty.faults.lose(0)
    faulty.faults.reset()
    faulty.faults.lose(0)
    with fails_with(Status.DEVICE_LOST):
        faulty.queue_synchronize(queue)


def test_bad_settings(faulty: DriverUnderTest) -> None:
    controls = faulty.faults
    for name, arguments, settings in (
        ("configure", (), {"delay_us": -1}),
        ("configure", (), {"slow": {"nothing": 5}}),
        ("fail", ("nothing",), {}),
        ("fail", ("allocate", 0), {}),
        ("fail", ("allocate",), {"status": "ok"}),
        ("fail", ("allocate",), {"status": 8}),
        ("fail", ("allocate",), {"repeat": "sometimes"}),
        ("lie", ("nothing",), {}),
        ("lie", ("fill", 0), {}),
        ("lose", (-1,), {}),
        ("lose", (0, 0), {}),
    ):
        with pytest.raises(ValueError, match="is not a setting of fault injection"):
            getattr(controls, name)(*arguments, **settings)
    faulty.deallocate(0, faulty.allocate(0, 64))


def test_missing_functions_stay_missing(tmp_path: Path, faulty: DriverUnderTest) -> None:
    assert not faulty.has("convolution")
    assert faulty.has("copy_peer")
    # A table from a time when the contract ended before copy_peer.
    older = contract.Driver()
    size = contract.Driver.copy_peer.offset
    ctypes.memmove(ctypes.addressof(older), ctypes.addressof(faulty.driver), size)
    older.struct_size = size
    wrapped = contract.wrap(older, faulty.faults._path)
    assert not wrapped.copy_peer
    assert not wrapped.fill
    assert wrapped.copy_device_to_device


def test_many_threads(faulty: DriverUnderTest) -> None:
    faulty.faults.fail("event_create", 7, repeat="every")

    def work(_: int) -> None:
        for _ in range(70):
            with contextlib.suppress(DriverError):
                faulty.event_destroy(faulty.event_create(0))

    in_threads(work, 4)
    assert faulty.faults.injected() == 40
    assert faulty.faults.calls()["event_create"] == 280
    faulty.faults.reset()
    assert set(faulty.faults.calls().values()) == {0}
    assert faulty.faults.live()["events"] == 0


def test_delays_need_callbacks(tmp_path: Path, faulty: DriverUnderTest) -> None:
    less = contract.Driver.from_buffer_copy(faulty.driver)
    less.host_callback = contract.FUNCTIONS["host_callback"]()
    (tmp_path / "other").mkdir()
    controls = faults.FaultInjection(shutil.copy(faults.library_path(), tmp_path / "other"))
    controls.configure(delay_us=100)
    with pytest.raises(ValueError, match='`host_callback`, which the driver "host" lacks'):
        contract.wrap(less, controls._path)
    with pytest.raises(ValueError, match="delay_us delays work by `host_callback`"):
        controls.configure(delay_us=7)
    controls.configure(delay_us=0)


def test_context_is_passed_on(tmp_path: Path) -> None:
    wrapped = contract.Driver.from_buffer_copy(contract.load(host.library_path()))
    seen: list[int] = []
    wrapped.context = 5
    wrapped.device_count = contract.FUNCTIONS["device_count"](lambda c, _: seen.append(c) or 0)
    table = contract.wrap(wrapped, shutil.copy(faults.library_path(), tmp_path))
    assert table.device_count(table.context, ctypes.byref(ctypes.c_int32())) == Status.OK
    assert seen == [5]
