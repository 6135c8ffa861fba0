"""Torture: every kind of fault happens, and every kind of misuse is noticed."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from driver_support import DriverUnderTest, fails_with, open_driver

from tests.support import in_threads
from torch_outboard.drivers import contract, host, torture
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_counts_calls(tortured: DriverUnderTest) -> None:
    before = tortured.torture.calls()
    assert before["initialize"] == 1
    queue = tortured.queue_create(0)
    for _ in range(3):
        tortured.queue_synchronize(queue)
    after = tortured.torture.calls()
    changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert changed == {"queue_create": 1, "queue_synchronize": 3}
    tortured.torture.reset()
    assert set(tortured.torture.calls().values()) == {0}


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
    assert tortured.torture.leaks() == []
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


def test_any_status(tortured: DriverUnderTest) -> None:
    for status in list(Status)[2:]:
        tortured.torture.fail("memory_info", status=status.name.lower())
        with fails_with(status, "Torture made this call of memory_info fail"):
            tortured.memory_info(0)
        tortured.torture.fail("memory_info", status=int(status))
        assert tortured.status("memory_info", 0, None, None) == status


def test_any_function(tortured: DriverUnderTest) -> None:
    tortured.torture.fail("*", 2)
    tortured.device_count()
    with pytest.raises(DriverError, match="memory_info"):
        tortured.memory_info(0)
    tortured.memory_info(0)


# Their objects take a compiler, and torture looks at objects before it lets a call fail.
OF_CODE = {
    "program_build", "program_binary", "program_load", "program_release", "kernel_create",
    "kernel_release", "launch",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [name for name in contract.FUNCTIONS if name not in {"initialize", "finalize", *OF_CODE}],
)
def test_every_function_can_fail(tortured: DriverUnderTest, name: str) -> None:
    if not tortured.has(name):
        assert not getattr(contract.load(host.library_path()), name)
        return
    queue, event = tortured.queue_create(0), tortured.event_create(0, timing=True)
    address, pinned = tortured.allocate(0, 4096), tortured.host_allocate(64)
    tortured.graph_begin(queue)
    graph = tortured.graph_end(queue)
    registered = ctypes.create_string_buffer(4096)
    tortured.host_register(ctypes.addressof(registered), 4096)
    shareable = tortured.allocate(0, 64, shareable=True)
    handle = tortured.memory_export(0, shareable)
    imported = tortured.memory_import(0, handle)
    os.close(handle.descriptor)
    id = tortured.communicator_id()
    communicator = tortured.communicator_create(id, 0, 0, 1)
    other = contract.described(
        contract.CommunicatorDescription, id=ctypes.pointer(tortured.communicator_id()), ranks=1
    )
    sent = contract.described(
        contract.Communication, dtype=1, elements=1, source=address, destination=address
    )
    buffer, out = ctypes.create_string_buffer(64), ctypes.create_string_buffer(4096)
    memory = contract.described(contract.Allocation, device=0, bytes=64)
    host_memory = contract.described(contract.HostAllocation, bytes=64)
    queue_wanted = contract.described(contract.QueueDescription)
    event_wanted = contract.described(contract.EventDescription)
    arguments: dict[str, tuple[object, ...]] = {
        "device_count": (ctypes.cast(out, ctypes.POINTER(ctypes.c_int32)),),
        "device_properties": (0, ctypes.byref(contract.DeviceProperties())),
        "device_state": (0, ctypes.byref(contract.described(contract.DeviceState))),
        "peer_access": (0, 1, ctypes.byref(ctypes.c_int32())),
        "allocate": (memory, ctypes.byref(contract.Address())),
        "deallocate": (0, address),
        "memory_info": (0, None, None),
        "host_allocate": (host_memory, ctypes.byref(ctypes.c_void_p())),
        "host_deallocate": (pinned,),
        "queue_create": (queue_wanted, ctypes.byref(contract.Queue())),
        "event_create": (event_wanted, ctypes.byref(contract.Event())),
        "event_destroy": (event,),
        "event_record": (event, queue),
        "event_wait": (queue, event),
        "event_query": (event,),
        "event_synchronize": (event,),
        "event_elapsed": (event, event, None),
        "device_synchronize": (0,),
        "copy_host_to_device": (queue, address, buffer, 64),
        "copy_device_to_host": (queue, buffer, address, 64),
        "copy_device_to_device": (queue, address, address + 64, 64),
        "copy_peer": (queue, 0, address, 0, address + 64, 64),
        "copy_host_to_device_2d": (queue, address, 8, buffer, 8, 8, 2),
        "copy_device_to_host_2d": (queue, buffer, 8, address, 8, 8, 2),
        "copy_device_to_device_2d": (queue, address, 8, address + 64, 8, 8, 2),
        "fill": (queue, address, buffer, 1, 64),
        "host_callback": (queue, contract.HostFunction(lambda _: None), None),
        "graph_end": (queue, ctypes.byref(contract.Graph())),
        "graph_launch": (queue, graph),
        "graph_release": (graph,),
        "event_time": (event, None),
        "host_register": (ctypes.addressof(out), 4096),
        "host_unregister": (ctypes.addressof(registered),),
        "memory_export": (0, shareable, None),
        "memory_import": (0, ctypes.byref(handle), ctypes.byref(contract.Address())),
        "memory_close": (0, imported),
        "device_reset": (0,),
        "communicator_id": (ctypes.byref(id),),
        "communicator_create": (other, ctypes.byref(contract.Communicator())),
        "communicator_destroy": (communicator,),
        "communicator_abort": (communicator,),
        "communicator_error": (communicator,),
        "communicate": (queue, communicator, sent),
        "communication_begin": (),
        "communication_end": (),
    }
    destroying = (
        "deallocate", "host_deallocate", "queue_destroy", "event_destroy", "graph_release",
        "host_unregister", "memory_close", "communicator_destroy",
    )  # fmt: skip
    before = sum(tortured.torture.live().values())
    tortured.torture.fail(name, status="device_lost")
    assert tortured.status(name, *arguments.get(name, (queue,))) == Status.DEVICE_LOST
    assert name in tortured.last_error()
    # What creates has created nothing; what destroys has destroyed all the same.
    assert sum(tortured.torture.live().values()) == before - (name in destroying)
    if name != "queue_destroy":
        assert tortured.queue_query(queue)


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
    for function, nth in (("nothing", 1), ("fill", 0)):
        with pytest.raises(ValueError, match="is no torture setting"):
            tortured.torture.lie(function, nth)


def test_failed_synchronize_has_waited(tortured: DriverUnderTest) -> None:
    queue = tortured.queue_create(0)
    done: list[int] = []
    tortured.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    tortured.torture.fail("queue_synchronize")
    with pytest.raises(DriverError):
        tortured.queue_synchronize(queue)
    assert done == [1]


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


def test_adopted_host_memory_is_no_misuse(tmp_path: Path) -> None:
    driver = open_driver(tmp_path, OUTBOARD_HOST_ACCESS="shared", OUTBOARD_TORTURE="count")
    queue = driver.queue_create(0)
    host = ctypes.create_string_buffer(64)
    driver.fill(queue, ctypes.addressof(host), b"ab", 64)
    driver.queue_synchronize(queue)
    assert host.raw == b"ab" * 32
    assert driver.torture.misuses() == 0


def test_lost_device(tortured: DriverUnderTest) -> None:
    queue, other = tortured.queue_create(0), tortured.queue_create(1)
    event, address = tortured.event_create(0, timing=True), tortured.allocate(0, 64)
    done: list[int] = []
    tortured.host_callback(queue, lambda: (time.sleep(0.05), done.append(1)))
    tortured.torture.lose(0, 2)
    assert not tortured.queue_query(queue)
    refused: list[Callable[[], object]] = [
        lambda: tortured.fill(queue, address, b"a", 64),
        lambda: tortured.queue_query(queue),
        lambda: tortured.queue_synchronize(queue),
        lambda: tortured.device_synchronize(0),
        lambda: tortured.event_record(event, queue),
        lambda: tortured.event_query(event),
        lambda: tortured.event_create(0),
        lambda: tortured.queue_create(0),
        lambda: tortured.allocate(0, 64),
    ]
    for call in refused:
        with fails_with(Status.DEVICE_LOST, "Torture has lost device 0"):
            call()
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
    # All can be given back.
    tortured.deallocate(0, address)
    tortured.event_destroy(event)
    tortured.queue_destroy(queue)
    live = tortured.torture.live()
    assert (live["queues"], live["events"], live["allocations"]) == (1, 0, 1)  # of device 1


def test_settings_from_the_environment(tmp_path: Path) -> None:
    driver = open_driver(tmp_path, OUTBOARD_TORTURE="delay_us=1,limit=8192,fail=allocate:3:2:on")
    addresses = [driver.allocate(0, 4096), driver.allocate(0, 4096)]
    for address in addresses:
        driver.deallocate(0, address)
    with fails_with(Status.OUT_OF_MEMORY, "allocate fail"):
        driver.allocate(0, 64)


@pytest.mark.parametrize(
    "apply",
    [
        lambda controls: controls.configure(delay_us=-1),
        lambda controls: controls.configure(slow={"nothing": 5}),
        lambda controls: controls.fail("nothing"),
        lambda controls: controls.fail("allocate", 0),
        lambda controls: controls.fail("allocate", status="ok"),
        lambda controls: controls.fail("allocate", status=8),
        lambda controls: controls.fail("allocate", repeat="sometimes"),
        lambda controls: controls.lose(-1),
        lambda controls: controls.lose(0, 0),
    ],
)
def test_bad_settings(tortured: DriverUnderTest, apply: Callable[[torture.Torture], None]) -> None:
    with pytest.raises(ValueError, match="is no torture setting"):
        apply(tortured.torture)
    assert tortured.status("memory_info", 0, *[ctypes.byref(ctypes.c_uint64())] * 2) == Status.OK


def test_message_of_the_wrapped_driver_comes_through(tortured: DriverUnderTest) -> None:
    tortured.torture.fail("memory_info")
    with pytest.raises(DriverError, match="Torture"):
        tortured.memory_info(0)
    with pytest.raises(DriverError, match="host driver has 2 devices"):
        tortured.memory_info(9)


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

    def work(_: int) -> int:
        failures = 0
        for _ in range(70):
            try:
                tortured.event_destroy(tortured.event_create(0))
            except DriverError:
                failures += 1
        return failures

    assert sum(in_threads(work, 4)) == 40
    assert tortured.torture.calls()["event_create"] == 280
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
    count = contract.FUNCTIONS["device_count"](lambda context, _: seen.append(context) or 0)
    wrapped.device_count = count
    controls = torture.Torture(shutil.copy(torture.library_path(), tmp_path))
    address = controls.library.ob_torture_wrap(ctypes.addressof(wrapped))
    table = contract.Driver.from_address(address)
    assert table.context == 5
    assert table.device_count(table.context, ctypes.byref(ctypes.c_int32())) == Status.OK
    assert seen == [5]
