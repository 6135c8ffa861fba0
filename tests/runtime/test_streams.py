"""Streams: pools, priorities, the current one per thread and device, and waiting."""

import itertools

import pytest
import torch

from tests.support import in_threads
from torch_outboard import _C
from torch_outboard.drivers import contract
from torch_outboard.state import state

ELEMENTS = 1 << 18


def pinned(value: float) -> torch.Tensor:
    return torch.full((ELEMENTS,), value).pin_memory()


# ---- Pools


def test_pool_hands_streams_out_in_turn(device_module):
    ids = [device_module.Stream().stream_id for _ in range(64)]
    assert 0 not in ids
    assert len(set(ids)) == 32
    assert ids[:32] == ids[32:]

    def take(_: int) -> list[int]:
        return [device_module.Stream(priority=-1).stream_id for _ in range(32)]

    ids = list(itertools.chain(*in_threads(take, 8)))
    assert len(set(ids)) == 32
    assert {ids.count(each) for each in set(ids)} == {8}


def test_pools_of_priorities_are_apart(device_module):
    least, greatest = device_module.Stream.priority_range()
    if least == greatest:
        pytest.skip("the driver has one priority")
    urgent = {device_module.Stream(priority=greatest).stream_id for _ in range(40)}
    patient = {device_module.Stream(priority=least).stream_id for _ in range(40)}
    assert not urgent & patient
    # Others are clamped.
    assert device_module.Stream(priority=-(2**31)).priority == greatest
    assert device_module.Stream(priority=2**31 - 1).priority == least


# ---- The current stream


def test_current_stream_is_per_thread(device, device_module):
    assert device_module.current_stream().device == device
    stream = device_module.Stream()
    with device_module.stream(stream):
        assert in_threads(lambda _: device_module.current_stream(), 1) == [
            device_module.default_stream()
        ]
        assert device_module.current_stream() == stream


def test_current_stream_is_per_device(device_module):
    streams = [device_module.Stream(index) for index in range(2)]
    with device_module.stream(streams[0]), device_module.stream(streams[1]):
        assert device_module.current_device() == 1
        assert [device_module.current_stream(index) for index in range(2)] == streams
    with device_module.stream(streams[1]):
        assert device_module.current_stream(0) == device_module.default_stream(0)
    assert device_module.current_device() == 0
    assert device_module.current_stream(1) == device_module.default_stream(1)
    assert device_module.default_stream(0) != device_module.default_stream(1)


def test_blocks_nest_and_survive_errors(device_module):
    outer, inner = device_module.Stream(), device_module.Stream()
    with device_module.stream(outer):
        with pytest.raises(KeyError), device_module.stream(inner):  # noqa: PT012
            assert device_module.current_stream() == inner
            raise KeyError
        with device_module.stream(None):
            assert device_module.current_stream() == outer
        assert device_module.current_stream() == outer
    assert device_module.current_stream() == device_module.default_stream()


def test_streams_of_another_device_set_it(device, device_module):
    with torch.Stream(device=torch.device(device.type, 1)) as stream:
        assert device_module.current_device() == 1
        assert torch.accelerator.current_stream() == stream
        assert torch.empty(1, device=device.type).device.index == 1
    assert device_module.current_device() == 0
    assert torch.accelerator.current_stream(1).stream_id == 0
    for set_stream in (device_module.set_stream, torch.accelerator.set_stream):
        try:
            stream = device_module.Stream(1)
            set_stream(stream)
            assert device_module.current_device() == 1
            assert device_module.current_stream() == stream
        finally:
            device_module.set_stream(device_module.default_stream(1))
            device_module.set_device(0)


@pytest.mark.separate
@pytest.mark.faults
def test_operators_use_the_current_stream(device, device_module):
    """Work on a busy stream is waited for by a host kernel on the same stream."""
    stream = device_module.Stream()
    source = pinned(1.0)
    with device_module.stream(stream):
        x = torch.zeros(ELEMENTS, device=device)
        for _ in range(8):
            x.copy_(source, non_blocking=True)
        total = x.sum()
    assert total.item() == ELEMENTS


# ---- Waiting


@pytest.mark.separate
@pytest.mark.faults
@pytest.mark.parametrize("by", ["stream", "event"])
@pytest.mark.parametrize("there", [0, 1])
def test_waits_order_work(device, device_module, by, there):
    first, second = device_module.Stream(0), device_module.Stream(there)
    source = pinned(3.0)
    for _ in range(4):
        with device_module.stream(first):
            x = torch.zeros(ELEMENTS, device=device)
            x.copy_(source, non_blocking=True)
            event = first.record_event()
        if by == "stream":
            second.wait_stream(first)
        else:
            second.wait_event(event)
        with device_module.stream(second):
            y = torch.empty(ELEMENTS, device=torch.device(device.type, there))
            y.copy_(x, non_blocking=True)
            x.record_stream(second if there == 0 else first)
        second.synchronize()
        assert event.query()
        torch.testing.assert_close(y.cpu(), source.clone())


@pytest.mark.separate
@pytest.mark.faults
def test_synchronize_waits_for_all_streams(device, device_module):
    source = pinned(7.0)
    results, streams = [], [device_module.Stream() for _ in range(6)]
    assert streams[0].query()
    for stream in streams:
        with device_module.stream(stream):
            results.append(source.to(device, non_blocking=True))
    streams[0].synchronize()
    assert streams[0].query()
    device_module.synchronize()
    assert all(stream.query() for stream in streams)
    for result in results:
        assert torch.equal(result.cpu(), source)


def test_external_stream(device, device_module):
    """A queue that the kit did not make, and one that it did."""
    device_module.init()
    library = contract.load(str(state.choice.library))
    queue = contract.Queue()
    wanted = contract.described(contract.QueueDescription, device=0, priority=0)
    assert library.queue_create(library.context, wanted, queue) == contract.Status.OK
    stream = device_module.ExternalStream(queue.value, device=0)
    assert stream == device_module.ExternalStream(queue.value, device=0)
    source = pinned(2.0)
    with device_module.stream(stream):
        x = source.to(device, non_blocking=True)
        total = (x + 1).sum()
    assert total.item() == 3 * ELEMENTS
    stream.synchronize()
    own = device_module.Stream()
    assert device_module.ExternalStream(_C.testing.stream_queue(0, own.stream_id)) == own
    with pytest.raises(ValueError, match="needs a queue"):
        device_module.ExternalStream(0)


# ---- Errors


def test_unknown_stream(device, device_module):
    for stream_id in (-1, 500, 1023, 1024, 2**40):
        stream = device_module.Stream(stream_id=stream_id, device_index=0, device_type=20)
        for use in (
            stream.query,
            stream.synchronize,
            stream.record_event,
            lambda stream=stream: device_module.set_stream(stream),
            lambda stream=stream: stream.priority,
            lambda stream=stream: torch.empty(1, device=device).record_stream(stream),
        ):
            with pytest.raises(RuntimeError, match=f"stream {stream_id} of .* does not exist"):
                use()
    with pytest.raises((RuntimeError, ValueError)):
        device_module.set_stream(torch.Stream(device="cpu"))
    assert device_module.current_stream() == device_module.default_stream()
