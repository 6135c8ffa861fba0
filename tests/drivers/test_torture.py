"""Torture: every kind of fault happens, and every kind of misuse is noticed."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from driver_support import DriverUnderTest, fails_with

from tests.support import in_threads
from torch_outboard.drivers import contract, host, torture
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_live_objects(tortured: DriverUnderTest) -> None:
    live = tortured.torture.live
    nothing = live()
    assert set(nothing.values()) == {0}
    queue, event = tortured.queue_create(0), tortured.event_create(1)
    address, pinned = tortured.allocate(1, 12345), tortured.host_allocate(64)
    tortured.graph_begin(queue)
    graph = tortured.graph_end(queue)
    made = dict.fromkeys(("allocations", "pinned", "queues", "events", "graphs"), 1)
    assert live() == nothing | made
    leaks = tortured.torture.leaks()
    assert len(leaks) == 5
    assert f"allocations 0x{address:x} device 1 12345 bytes" in leaks
    tortured.queue_destroy(queue)
    tortured.event_destroy(event)
    tortured.deallocate(1, address)
    tortured.host_deallocate(pinned)
    tortured.graph_release(graph)
    assert live() == nothing
    assert tortured.torture.injected() == tortured.torture.misuses() == 0


def test_delayed_work(tortured: DriverUnderTest) -> None:
    """A synchronization that was forgotten shows."""
    queue = tortured.queue_create(0)
    address = tortured.allocate(0, 4096)
    host = ctypes.create_string_buffer(b"?", 1)
    event = tortured.event_create(0)
    tortured.fill(queue, address, b"a", 1)
    tortured.torture.configure(delay_us=300_000)
    enqueue = timed(lambda: tortured.copy_device_to_host(queue, host, address, 1))
    tortured.event_record(event, queue)
    assert enqueue < 0.25
    assert host.raw == b"?"
    assert not tortured.queue_query(queue)
    assert not tortured.event_query(event)
    assert timed(lambda: tortured.queue_synchronize(queue)) > 0.3  # the copy and the recording
    assert host.raw == b"a"
    tortured.torture.configure(delay_us=0)
    tortured.fill(queue, address, b"a", 1)
    assert tortured.queue_query(queue)


def test_slow_calls(tortured: DriverUnderTest) -> None:
    tortured.torture.configure(slow={"memory_info": 200_000})
    assert timed(lambda: tortured.memory_info(0)) >= 0.2
    assert timed(tortured.device_count) < 0.2
    tortured.torture.configure(slow={"*": 100_000})
    assert timed(tortured.device_count) >= 0.1
    tortured.torture.reset()
    assert timed(tortured.device_count) < 0.1


def test_memory_limit(tortured: DriverUnderTest) -> None:
    tortured.torture.configure(limit=1 << 20)
    first = tortured.allocate(0, 1 << 19)
    with fails_with(Status.OUT_OF_MEMORY, "limits device 0 to 1048576 bytes"):
        tortured.allocate(0, (1 << 19) + 1)
    assert tortured.memory_info(0) == (1 << 19, 1 << 20)
    second = tortured.allocate(1, 1 << 20)
    tortured.deallocate(0, first)
    third = tortured.allocate(0, 1 << 20)
    tortured.torture.configure(limit=0)
    tortured.deallocate(0, third)
    tortured.deallocate(1, second)
    assert tortured.memory_info(0)[1] > 1 << 20


@pytest.mark.parametrize(
    ("repeat", "expected"),
    [(False, [3]), (True, [3, 4, 5, 6, 7]), ("every", [3, 6])],
)
def test_nth_call_fails(tortured: DriverUnderTest, repeat: bool | str, expected: list[int]) -> None:
    tortured.torture.fail("allocate", 3, "out_of_memory", repeat)
    statuses = []
    for _ in range(7):
        address = contract.Address()
        wanted = contract.described(contract.Allocation, device=0, bytes=64)
        statuses.append(tortured.status("allocate", wanted, ctypes.byref(address)))
    failed = [i for i, status in enumerate(statuses, 1) if status == Status.OUT_OF_MEMORY]
    assert failed == expected
    assert tortured.torture.injected() == len(expected)
    assert tortured.torture.live()["allocations"] == 7 - len(expected)


def test_any_status_and_any_function(tortured: DriverUnderTest) -> None:
    for status in list(Status)[2:]:
        tortured.torture.fail("memory_info", status=status.name.lower())
        with fails_with(status, "Torture made this call of memory_info fail"):
            tortured.memory_info(0)
        tortured.torture.fail("memory_info", status=int(status))
        assert tortured.status("memory_info", 0, None, None) == status
    tortured.torture.fail("*", 2)
    tortured.device_count()
    with pytest.raises(DriverError, match="memory_info"):
        tortured.memory_info(0)
    # Ours does not stand in the way of the driver's own message.
    with pytest.raises(DriverError, match="host driver has 2 devices"):
        tortured.memory_info(9)


def test_what_a_failed_call_has_done(tortured: DriverUnderTest) -> None:
    """What creates has created nothing; what waits has waited, and what destroys has destroyed."""
    queue, event = tortured.queue_create(0), tortured.event_create(0)
    address = tortured.allocate(0, 4096)
    tortured.write(queue, address, b"a" * 64)
    done: list[int] = []
    tortured.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    calls: list[tuple[str, Callable[[], object], int]] = [
        ("queue_synchronize", lambda: tortured.queue_synchronize(queue), 0),
        ("fill", lambda: tortured.fill(queue, address, b"b", 64), 0),
        ("allocate", lambda: tortured.allocate(0, 64), 0),
        ("event_create", lambda: tortured.event_create(0), 0),
        ("event_destroy", lambda: tortured.event_destroy(event), -1),
        ("deallocate", lambda: tortured.deallocate(0, address), -1),
        ("graph_begin", lambda: tortured.graph_begin(queue), 0),
        ("queue_destroy", lambda: tortured.queue_destroy(queue), -1),
    ]
    for name, call, change in calls:
        before = sum(tortured.torture.live().values())
        tortured.torture.fail(name, status="device_lost")
        with fails_with(Status.DEVICE_LOST, name):
            call()
        assert sum(tortured.torture.live().values()) == before + change, name
        assert done == [1]
        if name == "event_create":
            assert tortured.read(queue, address, 64) == b"a" * 64


def test_lies_answer_ok_and_do_nothing(tortured: DriverUnderTest) -> None:
    queue = tortured.queue_create(0)
    address = tortured.allocate(0, 64)
    tortured.fill(queue, address, b"a", 64)
    tortured.torture.lie("fill", 2)
    tortured.fill(queue, address, b"b", 64)
    tortured.fill(queue, address, b"c", 64)
    assert tortured.read(queue, address, 64) == b"b" * 64
    assert tortured.torture.injected() == 1
    before = tortured.torture.live()
    tortured.torture.lie("queue_create", repeat=True)
    for _ in range(2):
        assert not tortured.queue_create(0)
    tortured.torture.lie("deallocate")
    tortured.deallocate(0, address)
    assert tortured.torture.live() == before


def test_misuse(tortured: DriverUnderTest) -> None:
    queue, event = tortured.queue_create(0), tortured.event_create(0)
    address, pinned = tortured.allocate(0, 4096), tortured.host_allocate(64)
    elsewhere = tortured.allocate(1, 4096)
    host = ctypes.create_string_buffer(8192)
    dead_queue, dead_event = tortured.queue_create(0), tortured.event_create(0)
    dead = tortured.allocate(0, 4096)
    tortured.queue_destroy(dead_queue)
    tortured.event_destroy(dead_event)
    tortured.deallocate(0, dead)
    tortured.host_deallocate(pinned)
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
        assert tortured.status(name, *arguments) == Status.INVALID_ARGUMENT, (name, arguments)
        assert tortured.torture.misuses() == i, tortured.last_error()


def test_lost_device(tortured: DriverUnderTest) -> None:
    queue, other = tortured.queue_create(0), tortured.queue_create(1)
    event, address = tortured.event_create(0, timing=True), tortured.allocate(0, 64)
    done: list[int] = []
    tortured.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    tortured.torture.lose(0, 2)
    assert not tortured.queue_query(queue)
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
        with fails_with(Status.DEVICE_LOST, "Torture has lost device 0"):
            getattr(tortured, name)(*arguments)
    assert done == [1]  # nothing is pending on a lost device
    assert tortured.torture.injected() == 1
    tortured.fill(other, tortured.allocate(1, 64), b"a", 64)
    # What gives back works, and all has to be given back before a reset.
    with pytest.raises(DriverError, match=r"cannot be reset: .* is among its live allocations"):
        tortured.device_reset(0)
    tortured.deallocate(0, address)
    tortured.device_reset(0)
    address = tortured.allocate(0, 64)
    tortured.fill(queue, address, b"a", 64)
    tortured.event_record(event, queue)
    assert tortured.read(queue, address, 64) == b"a" * 64
    tortured.torture.lose(0)
    tortured.torture.reset()
    tortured.torture.lose(0)
    with fails_with(Status.DEVICE_LOST):
        tortured.queue_synchronize(queue)


def test_bad_settings(tortured: DriverUnderTest) -> None:
    controls = tortured.torture
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
        with pytest.raises(ValueError, match="is no torture setting"):
            getattr(controls, name)(*arguments, **settings)
    tortured.deallocate(0, tortured.allocate(0, 64))


def test_missing_functions_stay_missing(tmp_path: Path, tortured: DriverUnderTest) -> None:
    assert not tortured.has("convolution")
    assert tortured.has("copy_peer")
    # A table from a time when the contract ended before copy_peer.
    older = contract.Driver()
    size = contract.Driver.copy_peer.offset
    ctypes.memmove(ctypes.addressof(older), ctypes.addressof(tortured.driver), size)
    older.struct_size = size
    table = torture.Torture(tortured.torture._path).library.ob_torture_wrap(ctypes.addressof(older))
    wrapped = contract.Driver.from_address(table)
    assert not wrapped.copy_peer
    assert not wrapped.fill
    assert wrapped.copy_device_to_device


def test_many_threads(tortured: DriverUnderTest) -> None:
    tortured.torture.fail("event_create", 7, repeat="every")

    def work(_: int) -> None:
        for _ in range(70):
            with contextlib.suppress(DriverError):
                tortured.event_destroy(tortured.event_create(0))

    in_threads(work, 4)
    assert tortured.torture.injected() == 40
    assert tortured.torture.calls()["event_create"] == 280
    tortured.torture.reset()
    assert set(tortured.torture.calls().values()) == {0}
    assert tortured.torture.live()["events"] == 0


def test_delays_need_callbacks(tmp_path: Path, tortured: DriverUnderTest) -> None:
    less = contract.Driver.from_buffer_copy(tortured.driver)
    less.host_callback = contract.FUNCTIONS["host_callback"]()
    (tmp_path / "other").mkdir()
    controls = torture.Torture(shutil.copy(torture.library_path(), tmp_path / "other"))
    controls.configure(delay_us=100)
    table = contract.Driver.from_address(controls.library.ob_torture_wrap(ctypes.addressof(less)))
    assert table.initialize(None) == Status.INVALID_ARGUMENT
    assert b'delay_us delays work by `host_callback`, which the driver "host" lacks' in (
        table.last_error(None)
    )
    with pytest.raises(ValueError, match="delay_us delays work by `host_callback`"):
        controls.configure(delay_us=7)
    controls.configure(delay_us=0)


def test_context_is_passed_on(tmp_path: Path) -> None:
    wrapped = contract.Driver.from_buffer_copy(contract.load(host.library_path()))
    seen: list[int] = []
    wrapped.context = 5
    wrapped.device_count = contract.FUNCTIONS["device_count"](lambda c, _: seen.append(c) or 0)
    controls = torture.Torture(shutil.copy(torture.library_path(), tmp_path))
    address = controls.library.ob_torture_wrap(ctypes.addressof(wrapped))
    table = contract.Driver.from_address(address)
    assert table.device_count(table.context, ctypes.byref(ctypes.c_int32())) == Status.OK
    assert seen == [5]
