"""Segments that grow (`expandable_segments`), where a driver maps memory."""

import pytest

from tests.runtime.memory_checks import run_program

pytestmark = pytest.mark.by_turns(2)

# One device of 256 MiB; `host` adds functions to its table, so these run beside it alone.
SETTINGS = {
    "OUTBOARD_DRIVER": "host",
    "OUTBOARD_HOST_ACCESS": "shared",
    "OUTBOARD_FAULTS": "count",
}
PROGRAM = """
import torch
from tests.lying_drivers import use_table
from tests.runtime.mapped_memory import PIECE, MappedMemory
from torch_outboard.drivers.contract import Status

torch.set_num_threads(1)
memory = MappedMemory(256 * MIB)
use_table(memory.add_to)

def check():
    found = segments(device)
    assert all(s["is_expandable"] for s in found), found
    check_segments(device)
    now = stats(device)
    assert now["reserved_bytes.all.current"] == len(memory.mapped) * PIECE
    assert sum(s["total_size"] for s in found) == len(memory.mapped) * PIECE
    for left, right in itertools.pairwise(sorted(found, key=lambda s: s["address"])):
        assert left["address"] + left["total_size"] <= right["address"]
    assert now["segment.all.current"] == len(memory.reserved), memory.reserved
    assert now["inactive_split.all.current"] == 0
    assert now["inactive_split_bytes.all.current"] == 0, now["inactive_split_bytes.all.current"]

def filled(size, value):
    return torch.full((size,), value, dtype=torch.uint8, device=device)

def holds(tensor, value):
    return bool((tensor.cpu() == value).all())

def everything_goes():
    gc.collect()
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    assert not memory.mapped and not memory.reserved
    assert stats(device)["reserved_bytes.all.current"] == 0
    assert faults.misuses() == 0
"""

# They follow each other in one process, each from an empty cache.
CHECKS = {
    "what was freed in one size serves another": """
tensors = [empty(40 * MIB, device) for _ in range(5)]
check()
del tensors
whole = empty(250 * MIB, device)
check()
assert stats(device)["num_alloc_retries"] == 0
assert memory.calls["address_reserve"] == 2, memory.calls  # small and large
assert "allocate" not in faults.calls() or faults.calls()["allocate"] <= 1
del whole
everything_goes()

# A private pool has a separate segment.
before = memory.calls["address_reserve"]
pool = _C.create_memory_pool()
_C.begin_allocate_to_pool(0, pool)
inside = filled(30 * MIB, 1)
_C.end_allocate_to_pool(0, pool)
outside = filled(30 * MIB, 2)
assert memory.calls["address_reserve"] == before + 2, memory.calls
assert holds(inside, 1) and holds(outside, 2)
del inside, outside
_C.release_memory_pool(0, pool)
everything_goes()
""",
    "memory goes back from between tensors": """
first, second, third = (filled(20 * MIB + 100, value) for value in (1, 2, 3))
torch.accelerator.empty_cache()
reserved = len(memory.mapped)
del second
torch.accelerator.empty_cache()
check()
assert len(memory.mapped) == reserved - 19  # the pieces at its ends are shared
assert holds(first, 1) and holds(third, 3)
again = filled(20 * MIB, 4)
check()
assert first.data_ptr() < again.data_ptr() < third.data_ptr()
assert holds(first, 1) and holds(third, 3) and holds(again, 4)
del first, third, again
everything_goes()
""",
    "out of memory leaves all as it was": """
kept, most = filled(8 * MIB, 7), empty(192 * MIB, device)
fails(lambda: empty(100 * MIB, device), "100.00 MiB", kind=torch.OutOfMemoryError)
check()
more = filled(50 * MIB, 8)
check()
assert holds(kept, 7) and holds(more, 8)
del kept, more, most
torch.accelerator.empty_cache()
_C.set_memory_fraction(0.5, 0)
fails(lambda: empty(130 * MIB, device), "128.00 MiB", kind=torch.OutOfMemoryError)
assert empty(120 * MIB, device).numel() == 120 * MIB
_C.set_memory_fraction(1.0, 0)
everything_goes()
""",
    "a random history": """
rng = random.Random(0)
streams = [torch.accelerator.current_stream(), torch.Stream(device)]
live = []
for step in range(200):
    action = rng.random()
    if action < 0.5:
        size, value = int(2 ** rng.uniform(4, 24.5)), rng.randrange(256)
        stream = rng.choice(streams)
        try:
            with stream:
                live.append((filled(size, value), value))
        except torch.OutOfMemoryError:
            live = live[: len(live) // 2]
    elif action < 0.97 and live:
        tensor, value = live.pop(rng.randrange(len(live)))
        torch.accelerator.synchronize()
        assert holds(tensor, value), "another tensor wrote to this memory"
        if rng.random() < 0.3:
            tensor.record_stream(rng.choice(streams))
        del tensor
    else:
        torch.accelerator.empty_cache()
    if step % 10 == 0:
        check()
torch.accelerator.synchronize()
assert all(holds(tensor, value) for tensor, value in live)
del live
everything_goes()
""",
    "the history of memory": """
history = torch.host.memory
torch.accelerator.empty_cache()
history._record_memory_history(stacks="python", clear_history=True)
first, second = filled(8 * MIB, 1), filled(6 * MIB, 2)
del first
third = filled(12 * MIB, 3)
snapshot = history._snapshot()
assert snapshot["segments"] and all(s["is_expandable"] for s in snapshot["segments"])
assert sum(s["total_size"] for s in snapshot["segments"]) == len(memory.mapped) * PIECE
del second, third
torch.accelerator.synchronize()
torch.accelerator.empty_cache()

mapped, alive = set(), set()
for event in history._snapshot()["device_traces"][0]:
    start, end = event["addr"], event["addr"] + event["size"]
    pieces = set(range(start // PIECE, -(-end // PIECE)))
    match event["action"]:
        case "segment_map":
            assert start % PIECE == end % PIECE == 0
            assert not pieces & mapped, "mapped twice"
            mapped |= pieces
        case "segment_unmap":
            assert pieces <= mapped, "what was unmapped had not been mapped"
            mapped -= pieces
        case "alloc":
            assert pieces <= mapped, "a tensor lies where no memory is"
            assert event["frames"], "no frames of its allocation"
            alive.add(start)
        case "free_completed":
            alive.remove(start)
        case action:
            assert action in ("free_requested", "snapshot"), action
assert not mapped and not alive

history._record_memory_history(None)
everything_goes()
""",
    "calls that fail": """
kept = filled(20 * MIB, 1)
memory.failures["memory_map"] = Status.ERROR, 1
fails(lambda: empty(10 * MIB, device), "memory_map")
check()
other = filled(10 * MIB, 2)
assert holds(kept, 1) and holds(other, 2)
del other
memory.failures["memory_unmap"] = Status.ERROR, 1
fails(lambda: (torch.accelerator.empty_cache(), torch.accelerator.synchronize()), "memory_unmap")
check()
assert holds(filled(10 * MIB, 3), 3)
del kept
everything_goes()
# Without addresses memory comes as it does otherwise.
memory.failures["address_reserve"] = Status.OUT_OF_MEMORY, 100
x = filled(5 * MIB, 4)
assert not any(s["is_expandable"] for s in segments(device))
assert holds(x, 4)
""",
}


def test_segments_grow_and_shrink() -> None:
    asked = 'torch._C._accelerator_setAllocatorSettings("expandable_segments:True")'
    code = "".join(f"print({name!r}){check}" for name, check in CHECKS.items())
    run_program(code, before=PROGRAM + asked, **SETTINGS)


def test_without_the_setting_nothing_is_mapped() -> None:
    run_program(
        """
tensors = [empty(10 * MIB, device) for _ in range(5)]
assert not memory.calls
assert not any(s["is_expandable"] for s in segments(device))
""",
        before=PROGRAM,
        **SETTINGS,
    )
