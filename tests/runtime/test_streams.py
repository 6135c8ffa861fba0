"""Streams: pools, priorities, the current one per thread and device, and waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from torch_outboard import _C

pytestmark = [pytest.mark.separate, pytest.mark.torture]

ELEMENTS = 1 << 20


def in_thread(function: Callable[[], object]) -> object:
    """What `function` returns or raises in a thread of its own."""
    outcome: list[tuple[object, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert outcome, "the thread hangs"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def pinned(*values: float) -> torch.Tensor:
    return torch.tensor(values or [0.0]).repeat(ELEMENTS).pin_memory()


# ---- Pools


def test_pool_hands_streams_out_in_turn(device, device_module):
    streams = [device_module.Stream() for _ in range(64)]
    ids = [stream.stream_id for stream in streams]
    assert 0 not in ids
    assert len(set(ids)) == 32
    assert ids[:32] == ids[32:]


def test_pools_of_priorities_are_apart(device_module):
    least, greatest = device_module.Stream.priority_range()
    if least == greatest:
        pytest.skip("the driver has one priority")
    urgent = {device_module.Stream(priority=greatest).stream_id for _ in range(40)}
    patient = {device_module.Stream(priority=least).stream_id for _ in range(40)}
    assert not urgent & patient


@pytest.mark.parametrize("priority", [-(2**31), 2**31 - 1])
def test_priority_is_clamped(device_module, priority):
    least, greatest = device_module.Stream.priority_range()
    stream = device_module.Stream(priority=priority)
    assert stream.priority == (greatest if priority < 0 else least)


def test_streams_of_devices_are_apart(device, device_module):
    first, second = device_module.Stream(0), device_module.Stream(1)
    assert (first.device.index, second.device.index) == (0, 1)
    assert first != second
    assert device_module.default_stream(0) != device_module.default_stream(1)


def test_pool_from_many_threads(device_module):
    ids: list[int] = []
    barrier = threading.Barrier(8)

    def take() -> None:
        barrier.wait()
        ids.extend(device_module.Stream(priority=-1).stream_id for _ in range(32))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ids) == 256
    assert len(set(ids)) == 32
    assert {ids.count(each) for each in set(ids)} == {8}


# ---- The current stream


def test_current_stream_is_per_thread(device_module):
    stream = device_module.Stream()
    with device_module.stream(stream):
        assert in_thread(device_module.current_stream) == device_module.default_stream()
        assert device_module.current_stream() == stream


def test_current_stream_is_per_device(device_module):
    streams = [device_module.Stream(index) for index in range(2)]
    with device_module.stream(streams[0]), device_module.stream(streams[1]):
        assert device_module.current_device() == 1
        assert [device_module.current_stream(index) for index in range(2)] == streams
    assert device_module.current_device() == 0
    assert device_module.current_stream(1) == device_module.default_stream(1)


def test_blocks_nest_and_survive_errors(device_module):
    outer, inner = device_module.Stream(), device_module.Stream()
    with device_module.stream(outer):
        with pytest.raises(KeyError), device_module.stream(inner):  # noqa: PT012
            assert device_module.current_stream() == inner
            raise KeyError
        assert device_module.current_stream() == outer
    assert device_module.current_stream() == device_module.default_stream()


def test_generic_stream_as_block(device, device_module):
    stream = torch.Stream(device=torch.device(device.type, 1))
    with stream:
        assert device_module.current_device() == 1
        assert torch.accelerator.current_stream() == stream
        assert torch.empty(1, device=device.type).device.index == 1
    assert device_module.current_device() == 0
    assert torch.accelerator.current_stream(1).stream_id == 0


def test_set_stream_sets_the_device(device_module):
    try:
        stream = device_module.Stream(1)
        device_module.set_stream(stream)
        assert device_module.current_device() == 1
        assert device_module.current_stream() == stream
    finally:
        device_module.set_stream(device_module.default_stream(1))
        device_module.set_device(0)


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


def test_wait_stream_orders_work(device, device_module):
    first, second = device_module.Stream(), device_module.Stream()
    source = pinned(3.0)
    for _ in range(10):
        with device_module.stream(first):
            x = torch.zeros(ELEMENTS, device=device)
            x.copy_(source, non_blocking=True)
        second.wait_stream(first)
        with device_module.stream(second):
            y = torch.empty_like(x)
            y.copy_(x, non_blocking=True)
            x.record_stream(second)
        second.synchronize()
        torch.testing.assert_close(y.cpu(), source.clone())


def test_wait_across_devices(device, device_module):
    other = torch.device(device.type, 1)
    first, second = device_module.Stream(0), device_module.Stream(1)
    source = pinned(5.0)
    with device_module.stream(first):
        x = torch.zeros(ELEMENTS, device=device)
        x.copy_(source, non_blocking=True)
    second.wait_stream(first)
    with device_module.stream(second):
        y = torch.empty(ELEMENTS, device=other)
        y.copy_(x, non_blocking=True)
    second.synchronize()
    torch.testing.assert_close(y.cpu(), source.clone())


def test_query_and_synchronize(device, device_module):
    stream = device_module.Stream()
    assert stream.query()
    source = pinned(1.0)
    with device_module.stream(stream):
        x = source.to(device, non_blocking=True)
    stream.synchronize()
    assert stream.query()
    assert x[-1].item() == 1.0


def test_synchronize_device_waits_for_all_streams(device, device_module):
    source = pinned(7.0)
    results = []
    for _ in range(6):
        with device_module.stream(device_module.Stream()):
            results.append(source.to(device, non_blocking=True))
    device_module.synchronize()
    for result in results:
        assert torch.equal(result.cpu(), source)


def test_external_stream(device, device_module):
    """A queue that the kit did not make: here one of another device's pool position."""
    from torch_outboard.drivers import contract

    device_module.init()
    library = _driver_library()
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


def _driver_library():
    import ctypes
    import os

    from torch_outboard.drivers import contract
    from torch_outboard.state import state

    if os.environ.get("OUTBOARD_TORTURE"):
        pytest.skip("queues that torture did not see are refused by it")
    library = str(state.choice.library)
    assert isinstance(ctypes.CDLL(library), ctypes.CDLL)
    return contract.load(library)


# ---- Errors


@pytest.mark.parametrize("index", [2, 63, 64, 99, 127])
def test_index_too_large(device, device_module, index):
    uses = {
        "stream": lambda: device_module.Stream(index),
        "generic": lambda: torch.Stream(device=torch.device(device.type, index)),
        "default": lambda: device_module.default_stream(index),
        "external": lambda: device_module.ExternalStream(0x1000, device=index),
        "query": lambda: device_module.Stream(
            stream_id=0, device_index=index, device_type=20
        ).query(),
        "priority": lambda: _C.stream_priority(index, 0),
        "synchronize": lambda: device_module.synchronize(index),
    }
    for use in uses.values():
        with pytest.raises(RuntimeError, match=f"device index {index} was asked for"):
            use()


@pytest.mark.parametrize("index", [-1, -2, -128])
def test_negative_index(device_module, index):
    for use in (
        lambda: device_module.default_stream(index),
        lambda: device_module.current_stream(index),
        lambda: device_module.ExternalStream(0x1000, device=index),
        lambda: device_module.synchronize(index),
    ):
        with pytest.raises(RuntimeError, match=f"device index {index} was asked for"):
            use()


@pytest.mark.parametrize("stream_id", [-1, 500, 1023, 1024, 2**40])
def test_unknown_stream(device, device_module, stream_id):
    stream = device_module.Stream(stream_id=stream_id, device_index=0, device_type=20)
    for use in (
        stream.query,
        stream.synchronize,
        stream.record_event,
        lambda: device_module.set_stream(stream),
        lambda: stream.priority,
        lambda: torch.empty(1, device=device).record_stream(stream),
    ):
        with pytest.raises(RuntimeError, match=f"stream {stream_id} of .* does not exist"):
            use()
    assert device_module.current_stream() == device_module.default_stream()


def test_streams_of_other_devices_are_refused(device_module):
    with pytest.raises(ValueError, match="'cpu' was given where"):
        device_module.Stream("cpu")
    with pytest.raises((RuntimeError, ValueError)):
        device_module.set_stream(torch.Stream(device="cpu"))
    assert device_module.current_stream() == device_module.default_stream()
