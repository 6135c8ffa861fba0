"""Devices, streams and events under PyTorch's own names."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_dtype import get_all_dtypes

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


def test_is_the_accelerator(device):
    assert accelerator.current_accelerator() == torch.device(device.type)
    assert accelerator.current_accelerator(check_available=True) is not None
    assert accelerator.is_available()
    assert torch.get_device_module() is torch.get_device_module(device)
    assert accelerator.device_count() == torch.get_device_module(device).device_count()


@two
def test_tensors_follow_the_current_device(device):
    for index in range(accelerator.device_count()):
        accelerator.set_device_index(index)
        x = torch.randn(5, 5, device=device.type)
        assert x.device.index == index
        assert torch.matmul(x, x).sum().device.index == index
        assert accelerator.current_device_index() == index


@two
def test_errors_leave_the_current_device(device):
    def fail():
        with accelerator.device_index(1):
            assert torch.empty(1, device=device.type).device.index == 1
            with accelerator.device_index(0):
                raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert accelerator.current_device_index() == 0
    x, smaller = torch.ones(5, 5, device=device), torch.ones(3, 3, device=device)
    with pytest.raises(RuntimeError):
        torch.matmul(x, smaller)
    assert accelerator.current_device_index() == 0
    assert torch.matmul(x, x).sum() == 125


def test_every_dtype_is_supported_for_storage(device):
    first = accelerator.get_device_capability(device)["supported_dtypes"]
    expected = set(get_all_dtypes(include_complex32=True, include_qint=True))
    assert expected <= first
    last = torch.device(device.type, accelerator.device_count() - 1)
    assert accelerator.get_device_capability(last)["supported_dtypes"] == first


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
