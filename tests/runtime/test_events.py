"""Events: recording, waiting, timing, across devices and threads."""

import threading

import pytest
import torch

from tests.support import in_threads

ELEMENTS = 1 << 18


def test_unrecorded_event_has_happened(device, device_module):
    event = device_module.Event()
    assert isinstance(event, torch.Event)
    assert isinstance(torch.Event(), device_module.Event)
    assert not isinstance(torch.Stream(), device_module.Event)
    assert (event.device.type, event.device.index, event.event_id) == (device.type, None, 0)
    assert event.query()
    event.synchronize()
    event.wait()
    device_module.Stream().wait_event(event)
    event.record(device_module.Stream())
    assert (event.device, event.event_id != 0) == (device, True)


@pytest.mark.separate
@pytest.mark.faults
def test_event_can_be_recorded_again(device, device_module):
    event = device_module.Event()
    source = torch.ones(ELEMENTS).pin_memory()
    for value in range(5):
        source.fill_(value)
        x = source.to(device, non_blocking=True)
        event.record()
        event.synchronize()
        assert x[-1].item() == value
    for _ in range(20):
        x = source.to(device, non_blocking=True)
        pending = device_module.Event()
        pending.record()
        del pending
    device_module.synchronize()
    assert x[-1].item() == 4


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


@pytest.mark.separate
@pytest.mark.faults
def test_events_on_many_threads(device, device_module):
    """A chain through eight threads, each waits for the one before."""
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

    in_threads(link, 8)
    events[8].synchronize()
    assert counter.item() == 8


# ---- Errors


def test_what_events_refuse(device_module):
    event = device_module.Event(device=0)
    event.record(device_module.default_stream(0))
    with pytest.raises(RuntimeError, match="device"):
        event.record(device_module.default_stream(1))
    event.synchronize()
    with pytest.raises(NotImplementedError, match="between processes"):
        device_module.Event(interprocess=True)


def test_elapsed_time_that_cannot_be_told(device_module):
    timed, never = (device_module.Event(enable_timing=True) for _ in range(2))
    untimed = device_module.Event()
    elsewhere = device_module.Event(enable_timing=True, device=1)
    elsewhere.record(device_module.default_stream(1))
    for event in (timed, untimed):
        event.record()
    for event in (timed, untimed, elsewhere):
        event.synchronize()
    for start, end, words in (
        (timed, untimed, "enable_timing"),
        (untimed, timed, "enable_timing"),
        (timed, never, "record"),
        (timed, elsewhere, "device"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=words):
            start.elapsed_time(end)
