"""Streams and events under PyTorch's own names."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.separate, pytest.mark.torture]
accelerator = torch.accelerator
two = pytest.mark.skipif("accelerator.device_count() < 2", reason="there is one device")


@pytest.fixture(autouse=True)
def first_device(device):
    streams = [accelerator.current_stream(i) for i in range(accelerator.device_count())]
    yield
    for stream in reversed(streams):
        accelerator.set_stream(stream)
    accelerator.set_device_index(0)


def last(device):
    return torch.device(device.type, accelerator.device_count() - 1)


def test_streams_are_made_in_every_way(device):
    stream = torch.Stream(device=device.type)
    assert stream.device_index == accelerator.current_device_index()
    for where in (last(device), str(last(device)), last(device).index):
        stream = torch.Stream(where)
        assert stream.device == last(device)
    same = torch.Stream(
        stream_id=stream.stream_id,
        device_type=stream.device_type,
        device_index=stream.device_index,
    )
    assert same == stream
    words = f"torch.Stream device_type={device.type}, device_index={stream.device_index}"
    assert words in repr(stream)


def test_blocks_and_switches(device):
    with torch.Stream(last(device)) as stream:
        assert accelerator.current_stream() == stream
    for where in (device, last(device)):
        stream = torch.Stream(where)
        accelerator.set_stream(stream)
        assert accelerator.current_stream() == stream
        assert accelerator.current_stream().stream_id == stream.stream_id


def test_streams_wait_for_streams_and_events(device):
    first, second, third = torch.Stream(device), torch.Stream(last(device)), torch.Stream(device)
    assert first.query()
    second.wait_stream(first)
    event = first.record_event()
    x = torch.ones(30, 30, device=device)
    second.wait_event(event)
    third.wait_event(event)
    with third:
        y = torch.matmul(x, x)
    with first:
        z = torch.matmul(x, x)
    accelerator.synchronize()
    third.synchronize()
    second.synchronize()
    assert event.query()
    assert first.query()
    assert torch.equal(y, z)


@pytest.mark.parametrize("where", ["name", "device", "nothing"])
def test_events_begin_without_a_device_index(device, where):
    made = {"name": (device.type,), "device": (last(device),), "nothing": ()}[where]
    event = torch.Event(*made)
    assert (event.device.type, event.device.index, event.event_id) == (device.type, None, 0)
    assert event.query()
    event.synchronize()
    event.record(torch.Stream(device))
    event.synchronize()
    assert (event.device, event.query()) == (device, True)
    assert event.event_id != 0


def test_events_of_a_stream(device):
    stream = torch.Stream(last(device))
    first, second = stream.record_event(), stream.record_event()
    assert first.device == second.device == last(device)
    assert 0 not in (first.event_id, second.event_id)
    assert first.event_id != second.event_id
    first.record(stream)  # again
    stream.synchronize()
    assert first.query()
    assert second.query()


def test_time_between_events(device):
    stream = torch.Stream(device.type)
    first = torch.Event(device.type, enable_timing=True)
    second = torch.Event(device.type, enable_timing=True)
    first.record(stream)
    first.synchronize()
    _ = torch.ones(1000, device=device) + 1
    second.record()  # on the current stream
    second.synchronize()
    assert first.elapsed_time(second) > 0
    untimed = torch.Event(device.type, enable_timing=False)
    untimed.record(stream)
    stream.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        untimed.elapsed_time(untimed)


@two
def test_synchronizing_another_device(device):
    accelerator.set_device_index(1)
    x = torch.ones(100, 100, device=device.type)
    total = torch.matmul(x, x).sum()
    accelerator.synchronize()
    assert accelerator.current_device_index() == 1
    assert (total.device.index, total.item()) == (1, 1e6)
