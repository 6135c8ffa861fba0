"""`torch.<name>.Stream` and `Event`: contexts, priorities, order and times."""

from __future__ import annotations

import pytest
import torch

from torch_outboard import _C

pytestmark = [pytest.mark.separate, pytest.mark.torture]


def test_default_stream_is_current(device, device_module):
    stream = device_module.current_stream()
    assert stream == device_module.default_stream()
    assert stream.stream_id == 0
    assert stream.device == device
    assert isinstance(stream, torch.Stream)


def test_stream_context(device, device_module):
    stream = device_module.Stream()
    assert stream != device_module.default_stream()
    with device_module.stream(stream) as entered:
        assert entered is None
        assert device_module.current_stream() == stream
        x = torch.ones(1000, device=device)
    assert device_module.current_stream() == device_module.default_stream()
    stream.synchronize()
    assert stream.query()
    assert x.sum().item() == 1000
    with device_module.stream(None):
        assert device_module.current_stream() == device_module.default_stream()


def test_stream_context_on_another_device(device_module, second):
    stream = device_module.Stream(second)
    with device_module.stream(stream):
        assert device_module.current_device() == 1
        assert device_module.current_stream() == stream
        assert device_module.current_stream(0) == device_module.default_stream(0)
    assert device_module.current_device() == 0
    assert device_module.current_stream(1) == device_module.default_stream(1)


def test_stream_is_hashable(device_module):
    stream = device_module.Stream()
    same = device_module.Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=20
    )
    assert {stream: 1}[same] == 1
    assert "Stream device=" in repr(stream)


def test_external_stream(device_module):
    stream = device_module.Stream()
    queue = _C.stream_queue(0, stream.stream_id)
    assert device_module.ExternalStream(queue) == stream
    with pytest.raises(ValueError, match="needs a queue"):
        device_module.ExternalStream(0)


def test_events_are_generic(device_module):
    assert isinstance(torch.Event(), device_module.Event)
    assert isinstance(device_module.Event(), torch.Event)
    assert not isinstance(torch.Stream(), device_module.Event)


def test_interprocess_event_is_refused(device_module):
    with pytest.raises(NotImplementedError, match="between processes"):
        device_module.Event(interprocess=True)


def test_synchronize_forms(device, device_module):
    for form in (None, 0, device, str(device), device.type):
        device_module.synchronize(form)
