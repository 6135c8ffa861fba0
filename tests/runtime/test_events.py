"""Events: recording, waiting, timing, across devices and threads."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.support import run_python

pytestmark = [pytest.mark.separate, pytest.mark.torture]

ELEMENTS = 1 << 20


def test_unrecorded_event_has_happened(device_module):
    event = device_module.Event()
    assert event.query()
    event.synchronize()
    event.wait()
    device_module.Stream().wait_event(event)


def test_event_follows_its_stream(device, device_module):
    stream = device_module.Stream()
    source = torch.ones(ELEMENTS).pin_memory()
    with device_module.stream(stream):
        x = source.to(device, non_blocking=True)
        event = device_module.Event()
        event.record()
    event.synchronize()
    assert event.query()
    assert stream.query()
    assert x.sum().item() == ELEMENTS


def test_event_can_be_recorded_again(device, device_module):
    event = device_module.Event()
    source = torch.ones(ELEMENTS).pin_memory()
    for value in range(5):
        source.fill_(value)
        x = source.to(device, non_blocking=True)
        event.record()
        event.synchronize()
        assert x[-1].item() == value


def test_record_on_a_given_stream(device, device_module):
    stream = device_module.Stream()
    event = stream.record_event()
    assert isinstance(event, torch.Event)
    other = torch.Event(device)
    assert stream.record_event(other) is other
    other.synchronize()
    event.synchronize()
    assert event.query()


def test_elapsed_time_measures(device, device_module):
    start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    x = torch.ones(8 * ELEMENTS).pin_memory()
    start.record()
    for _ in range(10):
        x.to(device, non_blocking=True)
    end.record()
    end.synchronize()
    forward = start.elapsed_time(end)
    assert 0 < forward < 60_000
    assert end.elapsed_time(start) == pytest.approx(-forward)
    assert start.elapsed_time(start) == 0


def test_wait_across_devices(device, device_module):
    other = torch.device(device.type, 1)
    source = torch.full((ELEMENTS,), 4.0).pin_memory()
    first, second = device_module.Stream(0), device_module.Stream(1)
    with device_module.stream(first):
        x = source.to(device, non_blocking=True)
        event = device_module.Event()
        event.record()
    second.wait_event(event)
    with device_module.stream(second):
        y = torch.empty(ELEMENTS, device=other)
        y.copy_(x, non_blocking=True)
    second.synchronize()
    assert event.query()
    assert torch.equal(y.cpu(), source)


def test_events_on_many_threads(device, device_module):
    """A chain through eight threads, each of which waits for the one before."""
    counter = torch.zeros(1, device=device)
    events = [device_module.Event() for _ in range(9)]
    recorded = [threading.Event() for _ in range(9)]
    events[0].record()
    recorded[0].set()

    def link(position: int) -> None:
        with device_module.stream(device_module.Stream()):
            recorded[position].wait(60)
            events[position].wait()
            counter.add_(1)
            events[position + 1].record()
        recorded[position + 1].set()

    threads = [threading.Thread(target=link, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    events[8].synchronize()
    assert counter.item() == 8


def test_destroyed_while_pending(device, device_module):
    source = torch.ones(ELEMENTS).pin_memory()
    for _ in range(20):
        x = source.to(device, non_blocking=True)
        event = device_module.Event()
        event.record()
        del event
    device_module.synchronize()
    assert x.sum().item() == ELEMENTS


# ---- Errors


def test_event_belongs_to_one_device(device_module):
    event = device_module.Event(device=0)
    event.record(device_module.default_stream(0))
    with pytest.raises(RuntimeError, match="device"):
        event.record(device_module.default_stream(1))
    event.synchronize()
    assert event.query()


def test_elapsed_time_needs_timing(device_module):
    timed, untimed = device_module.Event(enable_timing=True), device_module.Event()
    for event in (timed, untimed):
        event.record()
        event.synchronize()
    for start, end in ((timed, untimed), (untimed, timed)):
        with pytest.raises((RuntimeError, ValueError), match="enable_timing"):
            start.elapsed_time(end)


def test_elapsed_time_needs_records(device_module):
    recorded, never = (device_module.Event(enable_timing=True) for _ in range(2))
    recorded.record()
    recorded.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="record"):
        recorded.elapsed_time(never)


def test_elapsed_time_across_devices(device_module):
    events = [device_module.Event(enable_timing=True, device=index) for index in range(2)]
    for index, event in enumerate(events):
        event.record(device_module.default_stream(index))
        event.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="device"):
        events[0].elapsed_time(events[1])


@pytest.mark.parametrize("index", [2, 99])
def test_device_index_too_large(device_module, index):
    with pytest.raises(RuntimeError, match=f"device index {index} was asked for"):
        device_module.Event(device=index)


@pytest.mark.parametrize("tells", [True, False])
def test_time_on_the_clock_of_the_host(tells: bool) -> None:
    """The driver's own, or the kit's by the time since an event of its own."""
    printed = run_python(
        """
        import sys, time, torch_outboard
        from torch_outboard import _C
        from torch_outboard.drivers import contract, host

        table = contract.Driver.from_buffer_copy(contract.load(host.library_path()))
        if sys.argv[1] == "False":
            table.event_time = contract.FUNCTIONS["event_time"]()
        torch_outboard.use_driver(table)
        _C._event_time()
        tolerance = 10_000_000
        for _ in range(3):
            before = time.monotonic_ns()
            happened = _C._event_time()
            print(before - tolerance <= happened <= time.monotonic_ns() + tolerance)
        """,
        str(tells),
        OUTBOARD_DRIVER="host",
        OUTBOARD_TORTURE=None,
    )
    assert printed.split() == ["True"] * 3
