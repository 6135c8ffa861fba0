"""`torch.accelerator.Graph`: capture, replay, memory, and what cannot be captured."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.separate,
    pytest.mark.torture,
    pytest.mark.skipif(
        not hasattr(torch.accelerator, "Graph"),
        reason="this PyTorch has no torch.accelerator.Graph",
    ),
]

N = 1000


@pytest.fixture
def stream(device: torch.device) -> Iterator[torch.Stream]:
    """A stream of its own, current during the test."""
    stream = torch.Stream(device)
    with stream:
        yield stream
    torch.accelerator.synchronize()


@pytest.fixture
def source(device: torch.device, stream: torch.Stream) -> torch.Tensor:
    return torch.arange(float(N)).to(device)


@pytest.fixture
def target(device: torch.device, stream: torch.Stream) -> torch.Tensor:
    return torch.zeros(N).to(device)


def capture_copy(source: torch.Tensor, target: torch.Tensor) -> torch.accelerator.Graph:
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    with graph:
        target.copy_(source)
    return graph


def test_nothing_runs_before_a_replay_and_everything_in_each(source, target) -> None:
    graph = capture_copy(source, target)
    torch.testing.assert_close(target.cpu(), torch.zeros(N))
    graph.replay()
    torch.testing.assert_close(target.cpu(), torch.arange(float(N)))
    # A graph reads what its memory holds at the time.
    source.fill_(5.0)
    graph.replay()
    torch.testing.assert_close(target.cpu(), torch.full((N,), 5.0))


def test_order_within_a_graph_and_with_later_work(source, target) -> None:
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    with graph:
        target.copy_(source)
        source[: N // 2].copy_(target[N // 2 :])
    graph.replay()
    half = torch.arange(float(N))[N // 2 :]
    torch.testing.assert_close(source.cpu(), torch.cat([half, half]))
    graph.replay()
    torch.testing.assert_close(target.cpu(), torch.cat([half, half]))


def test_replayed_on_another_stream(device, source, target) -> None:
    graph = capture_copy(source, target)
    with torch.Stream(device):
        graph.replay()
        torch.testing.assert_close(target.cpu(), torch.arange(float(N)))


def test_pinned_memory_is_read_at_each_replay(device, stream, target) -> None:
    pinned = torch.ones(N).pin_memory()
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    with graph:
        target.copy_(pinned, non_blocking=True)
    pinned.fill_(2.0)
    graph.replay()
    torch.testing.assert_close(target.cpu(), torch.full((N,), 2.0))


def test_memory_made_in_a_capture_comes_from_the_pool(device, source) -> None:
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    with graph:
        made = torch.empty_like(source)
        made.copy_(source)
    outside = torch.empty_like(source)
    snapshot = torch.get_device_module(device).memory_snapshot(graph.pool())
    segments = range(snapshot[0]["address"], snapshot[0]["address"] + snapshot[0]["total_size"])
    assert made.data_ptr() in segments
    assert outside.data_ptr() not in segments
    graph.replay()
    torch.testing.assert_close(made.cpu(), torch.arange(float(N)))


def test_graphs_share_a_pool(source, target) -> None:
    first = capture_copy(source, target)
    second = torch.accelerator.Graph(pool=first.pool())
    with second:
        source.copy_(target)
    assert second.pool() == first.pool()
    first.replay()
    target.fill_(3.0)
    second.replay()
    torch.testing.assert_close(source.cpu(), torch.full((N,), 3.0))


def test_reset_gives_the_pool_back_and_captures_anew(device, source, target) -> None:
    module = torch.get_device_module(device)
    graph = torch.accelerator.Graph()
    torch.accelerator.synchronize()
    with graph:
        made = torch.empty(1 << 22, dtype=torch.uint8, device=device)
    reserved = module.memory_reserved()
    del made
    graph.reset()
    torch.accelerator.empty_cache()
    assert module.memory_reserved() <= reserved - (1 << 22)
    with graph:
        target.copy_(source)
    graph.replay()
    torch.testing.assert_close(target.cpu(), torch.arange(float(N)))


def test_kept_graphs_are_instantiated_on_demand(source, target) -> None:
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph(keep_graph=True)
    with graph:
        target.copy_(source)
    graph.instantiate()
    graph.replay()
    torch.testing.assert_close(target.cpu(), torch.arange(float(N)))


def test_what_needs_the_host_cannot_be_captured(device, source, target) -> None:
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    with graph:
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
    torch.testing.assert_close(target.cpu(), torch.arange(float(N)))
    torch.testing.assert_close((source + 1).cpu(), torch.arange(float(N)) + 1)


def test_other_streams_go_on_during_a_capture(device, source, target) -> None:
    other = torch.Stream(device)
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    with graph:
        target.copy_(source)
        with other:
            torch.testing.assert_close(
                (torch.ones(3, device=device) + 1).cpu(), torch.full((3,), 2.0)
            )
    graph.replay()
    torch.testing.assert_close(target.cpu(), source.cpu())


def test_wrong_order_of_calls(source, target) -> None:
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
        with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
            graph.capture_begin()
        with pytest.raises(RuntimeError, match=r"call capture_end\(\) first"):
            graph.reset()
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        graph.capture_begin()


def test_a_stream_captures_one_graph_at_a_time(source, target) -> None:
    torch.accelerator.synchronize()
    first, second = torch.accelerator.Graph(), torch.accelerator.Graph()
    with first:
        with pytest.raises(RuntimeError):
            second.capture_begin()
        target.copy_(source)
    first.replay()
    torch.testing.assert_close(target.cpu(), torch.arange(float(N)))


def test_a_graph_that_dies_while_capturing_frees_the_stream(device, source, target) -> None:
    torch.accelerator.synchronize()
    graph = torch.accelerator.Graph()
    graph.capture_begin()
    target.copy_(source)
    del graph
    gc.collect()
    torch.testing.assert_close((source + 1).cpu(), torch.arange(float(N)) + 1)
    torch.testing.assert_close(target.cpu(), torch.zeros(N))


def test_nothing_to_print(tmp_path: Path, source, target) -> None:
    graph = torch.accelerator.Graph()
    graph.enable_debug_mode()
    with pytest.raises(NotImplementedError, match="cannot print a graph"):
        graph.debug_dump(str(tmp_path / "graph.dot"))
