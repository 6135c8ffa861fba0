"""The allocator's history, for PyTorch's viewer of memory."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from tests.support import in_threads

pytestmark = pytest.mark.by_turns(3)

# Bytes that have a segment of their own.
BYTES = 32 << 20


@pytest.fixture
def memory(device_module: Any) -> Iterator[Any]:
    torch.accelerator.synchronize()
    device_module.empty_cache()
    yield device_module.memory
    device_module.memory._record_memory_history(None)
    device_module.memory._set_memory_metadata("")


def make(device: torch.device, count: int = BYTES) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8, device=device)


def events(memory: Any, device: torch.device) -> list[dict[str, Any]]:
    return [
        e for e in memory._snapshot()["device_traces"][device.index] if e["action"] != "snapshot"
    ]


def actions(memory: Any, device: torch.device) -> list[str]:
    return [event["action"] for event in events(memory, device)]


def test_events_of_a_tensor(device, device_module, memory):
    memory._record_memory_history(stacks="python", clear_history=True)
    tensor = make(device)
    address = tensor.data_ptr()
    del tensor
    device_module.empty_cache()
    recorded = events(memory, device)
    expected = ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"]
    assert [event["action"] for event in recorded] == expected
    assert [event["addr"] for event in recorded] == [address] * 5
    assert [event["size"] for event in recorded] == [BYTES] * 5
    times = [event["time_us"] for event in recorded]
    assert times == sorted(times)
    (stream,) = {event["stream"] for event in recorded}
    assert stream != 0
    for event in recorded[:3]:
        names = [frame["name"] for frame in event["frames"]]
        assert "test_events_of_a_tensor" in names
    frame = next(f for f in recorded[1]["frames"] if f["name"] == "make")
    assert (Path(frame["filename"]).name, frame["line"] > 0) == (Path(__file__).name, True)
    of_python = len(recorded[1]["frames"])

    memory._record_memory_history(stacks="all", clear_history=True)
    make(device)
    with_cpp = next(e for e in events(memory, device) if e["action"] == "alloc")["frames"]
    assert "make" in [frame["name"] for frame in with_cpp]
    assert len(with_cpp) > of_python + 3


def test_memory_in_use_knows_where_it_comes_from(device, memory):
    memory._record_memory_history("state", context="state", stacks="python", clear_history=True)
    tensor = make(device)
    snapshot = memory._snapshot()
    assert snapshot["device_traces"][device.index] == []
    blocks = {b["address"]: b for s in snapshot["segments"] for b in s["blocks"]}
    block = blocks[tensor.data_ptr()]
    assert (block["state"], block["requested_size"]) == ("active_allocated", BYTES)
    assert block["frames"][0]["name"] == "make"
    address = tensor.data_ptr()
    del tensor
    blocks = {b["address"]: b for s in memory._snapshot()["segments"] for b in s["blocks"]}
    assert blocks[address]["frames"] == []


def test_stacks_that_were_asked_for(device, memory):
    frames = {None: [], "state": [], "alloc": ["alloc"], "all": ["alloc", "free_requested"]}
    for context, with_frames in frames.items():
        make(device)
        memory._record_memory_history(context=context, stacks="python", clear_history=True)
        make(device)
        got = [e["action"] for e in events(memory, device) if e["frames"]]
        assert [action for action in got if not action.startswith("segment")] == with_frames


def test_most_events_and_actions_to_skip(device, memory):
    memory._record_memory_history(max_entries=3, context=None, clear_history=True)
    for _ in range(5):
        make(device)
    assert actions(memory, device) == ["alloc", "free_requested", "free_completed"]
    memory._record_memory_history(
        context=None, clear_history=True, skip_actions=["free_requested", "segment_alloc"]
    )
    make(device)
    assert actions(memory, device) == ["alloc", "free_completed"]


def test_history_ends_and_stays(device, memory):
    memory._record_memory_history(context=None, clear_history=True)
    make(device)
    memory._record_memory_history(None)
    before = actions(memory, device)
    make(device)
    assert actions(memory, device) == before
    memory._record_memory_history(context=None)
    assert actions(memory, device) == before
    memory._record_memory_history(context=None, clear_history=True)
    assert actions(memory, device) == []


def test_memory_that_is_not_there(device, device_module, memory):
    memory._record_memory_history(stacks="python", clear_history=True)
    with pytest.raises(torch.OutOfMemoryError):
        make(device, 1 << 50)
    (event,) = [e for e in events(memory, device) if e["action"] == "oom"]
    assert event["size"] == 1 << 50
    assert 0 < event["device_free"] <= device_module.mem_get_info(device)[1]
    assert event["frames"][0]["name"] == "make"


def test_metadata_and_pools(device, device_module, memory):
    memory._record_memory_history(context=None, clear_history=True)
    memory._set_memory_metadata("epoch 3")
    assert memory._get_memory_metadata() == "epoch 3"
    pool = device_module.MemPool()
    with device_module.use_mem_pool(pool):
        tensor = make(device)
    memory._set_memory_metadata("")
    make(device)
    first, second = (event for event in events(memory, device) if event["action"] == "alloc")
    assert (first["user_metadata"], tuple(first["pool_id"])) == ("epoch 3", pool.id)
    assert second.get("user_metadata") is None
    assert tuple(second["pool_id"]) == (0, 0)
    del tensor


def test_other_stream_delays_the_free(device, memory):
    memory._record_memory_history(context=None, clear_history=True)
    stream = torch.Stream(device)
    tensor = make(device)
    tensor.record_stream(stream)
    del tensor
    torch.accelerator.synchronize()
    make(device)
    got = [a for a in actions(memory, device) if a.startswith("free")]
    assert got == ["free_requested", "free_completed"] * 2


def test_viewer_reads_it(device, memory, tmp_path):
    memory._record_memory_history(stacks="python", clear_history=True)
    kept = [make(device) for _ in range(3)]
    del kept[1]
    path = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(str(path))
    snapshot = pickle.loads(path.read_bytes())
    # The viewer's page holds the snapshot; the others read it here.
    assert "MemoryViz" in _memory_viz.trace_plot(snapshot)
    assert "MemoryViz" in _memory_viz.segment_plot(snapshot)
    assert "free_requested" in _memory_viz.trace(snapshot) or "del" in _memory_viz.trace(snapshot)
    assert "make" in _memory_viz.memory(snapshot, format_flamegraph=str)
    assert _memory_viz.segsum(snapshot).count("\n") > 3


def test_threads_at_once(device, memory):
    memory._record_memory_history(stacks="python", clear_history=True)

    def work(number: int) -> None:
        for _ in range(200):
            make(device, 512)
        memory._snapshot()

    in_threads(work, 4)
    assert actions(memory, device).count("alloc") == 800
    alive: set[int] = set()
    for event in events(memory, device):
        if event["action"] == "alloc":
            assert event["addr"] not in alive
            alive.add(event["addr"])
        elif event["action"] == "free_completed":
            alive.discard(event["addr"])
    assert alive == set()


def test_wrong_settings(memory):
    for options, error, message in (
        ({"enabled": "some"}, ValueError, "'state', 'all' or None, and 'some'"),
        ({"enabled": True}, TypeError, "pass 'all'"),
        ({"context": "some"}, ValueError, "unknown context 'some'"),
        ({"stacks": "c"}, ValueError, "'python' or 'all', and 'c'"),
        ({"max_entries": -1}, ValueError, "-1 was given"),
        ({"skip_actions": ["fre"]}, ValueError, "unknown action 'fre'; use one of 'alloc'"),
    ):
        with pytest.raises(error, match=message):
            memory._record_memory_history(**options)
