"""`torch.accelerator.Graph`: capture, replay, memory, and what cannot be captured."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = [
    pytest.mark.separate,
    pytest.mark.faults,
    pytest.mark.skipif(
        not hasattr(torch.accelerator, "Graph"),
        reason="this PyTorch has no torch.accelerator.Graph",
    ),
]

N = 1000
COUNTED = torch.arange(float(N))


@pytest.fixture
def stream(device: torch.device) -> Iterator[torch.Stream]:
    """A stream of its own, current during the test."""
    stream = torch.Stream(device)
    with stream:
        yield stream
    torch.accelerator.synchronize()


@pytest.fixture
def source(device: torch.device, stream: torch.Stream) -> torch.Tensor:
    return COUNTED.to(device)


@pytest.fixture
def target(device: torch.device, stream: torch.Stream) -> torch.Tensor:
    return torch.zeros(N).to(device)


@contextmanager
def capturing(
    graph: torch.accelerator.Graph | None = None, **options: Any
) -> Iterator[torch.accelerator.Graph]:
    """A capture of what the current stream is given."""
    torch.accelerator.synchronize()
    graph = graph or torch.accelerator.Graph(**options)
    with graph:
        yield graph


def capture_copy(source: torch.Tensor, target: torch.Tensor, **options: Any) -> Any:
    with capturing(**options) as graph:
        target.copy_(source)
    return graph


def assert_is(tensor: torch.Tensor, expected: torch.Tensor | float) -> None:
    if not isinstance(expected, torch.Tensor):
        expected = torch.full((N,), expected)
    torch.testing.assert_close(tensor.cpu(), expected)


def test_nothing_runs_before_a_replay_and_everything_in_each(device, source, target) -> None:
    graph = capture_copy(source, target)
    assert_is(target, 0.0)
    graph.replay()
    assert_is(target, COUNTED)
    # A graph reads what its memory holds at the time.
    source.fill_(5.0)
    graph.replay()
    assert_is(target, 5.0)
    # Another stream replays it.
    source.fill_(6.0)
    torch.accelerator.synchronize()
    with torch.Stream(device):
        graph.replay()
        assert_is(target, 6.0)
    # One that is kept is instantiated on demand.
    counted = COUNTED.to(device)
    kept = capture_copy(counted, target, keep_graph=True)
    kept.instantiate()
    kept.replay()
    assert_is(target, COUNTED)
    # Pinned memory is read at each replay, too.
    pinned = torch.ones(N).pin_memory()
    with capturing() as graph:
        target.copy_(pinned, non_blocking=True)
    pinned.fill_(2.0)
    graph.replay()
    assert_is(target, 2.0)


def test_memory_made_in_a_capture_comes_from_the_pool(device, source, target) -> None:
    with capturing() as graph:
        made = torch.empty_like(source)
        made.copy_(source)
    outside = torch.empty_like(source)
    snapshot = torch.get_device_module(device).memory_snapshot(graph.pool())
    segments = range(snapshot[0]["address"], snapshot[0]["address"] + snapshot[0]["total_size"])
    assert made.data_ptr() in segments
    assert outside.data_ptr() not in segments
    graph.replay()
    assert_is(made, COUNTED)
    # Another graph shares it.
    second = capture_copy(target, source, pool=graph.pool())
    assert second.pool() == graph.pool()
    target.fill_(3.0)
    second.replay()
    assert_is(source, 3.0)


def test_reset_gives_the_pool_back_and_captures_anew(device, source, target) -> None:
    module = torch.get_device_module(device)
    with capturing() as graph:
        made = torch.empty(1 << 22, dtype=torch.uint8, device=device)
    reserved = module.memory_reserved()
    del made
    graph.reset()
    torch.accelerator.empty_cache()
    assert module.memory_reserved() <= reserved - (1 << 22)
    with capturing(graph):
        target.copy_(source)
    graph.replay()
    assert_is(target, COUNTED)


def test_what_needs_the_host_cannot_be_captured(device, source, target) -> None:
    with capturing() as graph:
        target.copy_(source)
        for run in (
            lambda: torch.roll(source, 1),
            lambda: source + 1,
            lambda: source.sum().item(),
            lambda: source.cpu(),
            lambda: torch.accelerator.current_stream().query(),
            lambda: torch.accelerator.current_stream().synchronize(),
        ):
            with pytest.raises(RuntimeError, match="is capturing a graph"):
                run()
    # The capture went on, and so does the stream.
    graph.replay()
    assert_is(target, COUNTED)
    torch.testing.assert_close((source + 1).cpu(), COUNTED + 1)


def test_other_streams_go_on_during_a_capture(device, source, target) -> None:
    other = torch.Stream(device)
    with capturing() as graph:
        target.copy_(source)
        with other:
            torch.testing.assert_close(
                (torch.ones(3, device=device) + 1).cpu(), torch.full((3,), 2.0)
            )
    graph.replay()
    torch.testing.assert_close(target.cpu(), source.cpu())


def test_wrong_order_of_calls(tmp_path: Path, source, target) -> None:
    graph = torch.accelerator.Graph()
    graph.enable_debug_mode()
    with pytest.raises(NotImplementedError, match="cannot print a graph"):
        graph.debug_dump(str(tmp_path / "graph.dot"))
    graph = torch.accelerator.Graph()
    with pytest.raises(RuntimeError, match="captured nothing"):
        graph.replay()
    with pytest.raises(RuntimeError, match="not capturing"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="no memory pool"):
        graph.pool()
    torch.accelerator.synchronize()
    with graph:
        target.copy_(source)
        with pytest.raises(RuntimeError):  # a stream captures one graph at a time
            torch.accelerator.Graph().capture_begin()
        with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
            graph.capture_begin()
        with pytest.raises(RuntimeError, match=r"call capture_end\(\) first"):
            graph.reset()
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        graph.capture_begin()
    graph.replay()
    assert_is(target, COUNTED)


def test_a_graph_that_dies_while_capturing_frees_the_stream(device, source, target) -> None:
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    graph.capture_begin()
    target.copy_(source)
    del graph
    gc.collect()
    torch.testing.assert_close((source + 1).cpu(), COUNTED + 1)
    assert_is(target, 0.0)
