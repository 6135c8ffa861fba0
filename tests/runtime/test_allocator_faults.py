"""The caching allocator with streams that are late, drivers that fail, and PyTorch's settings."""

import pytest

from tests.runtime.memory_checks import run_program

pytestmark = pytest.mark.by_turns(3)


def run_late(code: str) -> None:
    run_program("side = torch.Stream(device)\n" + code, OUTBOARD_FAULTS="count")


def test_record_stream_keeps_memory_until_the_stream_is_done() -> None:
    run_late("""
tensor = empty(4096, device)
address = tensor.data_ptr()
work = busy(side)
tensor.record_stream(side)
started = time.perf_counter()
del tensor
assert time.perf_counter() - started < 0.1, "the deleter waited"
now = stats(device)
assert now["active_bytes.all.current"] - now["allocated_bytes.all.current"] == 4096
others = [empty(4096, device) for _ in range(20)]
assert address not in [t.data_ptr() for t in others], "memory was reused too early"
side.synchronize()
assert empty(4096, device).data_ptr() == address
now = stats(device)
assert now["active_bytes.all.current"] == now["allocated_bytes.all.current"]

# An idle stream needs no event.
calls = faults.calls()["event_record"]
tensor = empty(4096, device)
tensor.record_stream(side)
del tensor
assert faults.calls()["event_record"] == calls

# Without room the allocator waits for the stream instead of giving up.
tensor = empty(64 * MIB, device)
work = busy(side)
tensor.record_stream(side)
del tensor
limit_to(stats(device)["reserved_bytes.all.current"] + MIB)
assert empty(64 * MIB, device).numel() == 64 * MIB
assert faults.misuses() == 0
""")


def test_events_that_cannot_be_recorded() -> None:
    run_late("""
for call in ("event_create", "event_record"):
    tensor = empty(4096, device)
    address = tensor.data_ptr()
    work = busy(side)
    tensor.record_stream(side)
    faults.fail(call)
    del tensor
    others = [empty(4096, device) for _ in range(20)]
    assert address not in [t.data_ptr() for t in others], "memory was reused too early"
    fails(side.synchronize, call)
    del others
    torch.accelerator.synchronize()
    found = [empty(4096, device) for _ in range(30)]
    assert address in [t.data_ptr() for t in found]
    del found
""")


def test_what_goes_back_and_when() -> None:
    run_late("""
busy(side)  # the result is freed at once, the work on it is yet to come
started = time.perf_counter()
torch.accelerator.empty_cache()
assert time.perf_counter() - started > 0.1, "the memory went back before its stream was done"
torch.accelerator.synchronize()
assert faults.misuses() == 0

# Nothing is kept of what another stream works on.
work = busy(side)
live = faults.live()
tensors = [empty(size, device) for size in (1, 5000, 2 * MIB, 30 * MIB) for _ in range(5)]
for tensor in tensors:
    tensor.record_stream(side)
del tensor
tensors.clear()
torch.accelerator.empty_cache()
after = faults.live()
assert after["allocations"] <= live["allocations"], faults.leaks()
assert after["events"] == live["events"], faults.leaks()

# The driver is not asked for what is cached.
for size in (512, 100_000, 3 * MIB, 30 * MIB):
    empty(size, device)
    before = faults.calls()
    _C.testing.benchmark_allocator(size, 1000)
    assert faults.calls() == before
""")


def test_private_pools_hold_back_events() -> None:
    run_late("""
pool = _C.create_memory_pool()
_C.begin_allocate_to_pool(0, pool)
tensor = empty(4096, device)
address = tensor.data_ptr()
work = busy(side)
tensor.record_stream(side)
calls = faults.calls()["event_record"]
del tensor
assert faults.calls()["event_record"] == calls
assert empty(4096, device).data_ptr() != address
_C.end_allocate_to_pool(0, pool)
assert faults.calls()["event_record"] == calls + 1
side.synchronize()
del work
_C.release_memory_pool(0, pool)
torch.accelerator.empty_cache()
assert not _C.memory_snapshot(pool)
""")


def test_a_slow_driver_call_stops_no_other_thread() -> None:
    run_late("""
empty(512, device)
faults.configure(slow={"allocate": 500_000, "deallocate": 500_000})
# torch.accelerator.empty_cache keeps the interpreter lock, and so all threads.
for slow_call in (lambda: empty(40 * MIB, device), lambda: _C.testing.empty_memory_pool((0, 0))):
    thread = threading.Thread(target=slow_call)
    kept = empty(512, device)
    thread.start()
    time.sleep(0.1)
    started = time.perf_counter()
    for _ in range(100):
        empty(512, device)
    elapsed = time.perf_counter() - started
    assert thread.is_alive(), "the driver was not slow enough to tell"
    assert elapsed < 0.2, elapsed
    thread.join()
    del kept
""")


def test_driver_failures() -> None:
    run_late("""
kept = torch.arange(100, device=device)
reserved = stats(device)["reserved_bytes.all.current"]

# Other failures than lack of memory are raised as they are, and nothing is lost.
faults.fail("allocate", status="error")
fails(lambda: empty(40 * MIB, device), "allocate", kind=torch.AcceleratorError)
assert stats(device)["reserved_bytes.all.current"] == reserved
assert empty(40 * MIB, device).numel() == 40 * MIB

# The driver says no once: the cache is emptied, and it is asked again.
faults.fail("allocate", status="out_of_memory")
retries = stats(device)["num_alloc_retries"]
assert empty(80 * MIB, device).numel() == 80 * MIB
assert stats(device)["num_alloc_retries"] == retries + 1

# It says no always.
faults.configure(limit=100 * MIB)
fails(lambda: empty(150 * MIB, device), kind=torch.OutOfMemoryError)
faults.configure(limit=0)

# A failed release of memory is raised once, at the next synchronization.
empty(40 * MIB, device)
faults.fail("deallocate")
torch.accelerator.empty_cache()
fails(torch.accelerator.synchronize, "deallocate")
torch.accelerator.synchronize()
assert kept.cpu().tolist() == list(range(100))
""")


# ---- PyTorch's settings ----

# The second one asks for what the driver cannot do, which changes nothing.
SETTINGS = {
    "max_split_size_mb:32": """
large = empty(64 * MIB, device)
address = large.data_ptr()
del large
small = empty(4 * MIB, device)
assert not address <= small.data_ptr() < address + 64 * MIB, "an oversize block was split"
whole = empty(60 * MIB, device)
assert whole.data_ptr() == address, "a near fit uses the whole block"
now = stats(device)
assert now["oversize_allocations.current"] == 1, now
assert now["oversize_segments.current"] == 1, now
assert now["max_split_size"] == 32 * MIB, now
check_segments(device)
check_statistics(device)

# They go first when memory is short.
del small, whole
forget_everything()
unused = [empty(64 * MIB, device), empty(24 * MIB, device)]
kept = unused[1].data_ptr()
unused.clear()
limit_to(130 * MIB)
tensor = empty(90 * MIB, device)
assert kept in [s["address"] for s in segments(device)], "more was given back than needed"
""",
    "roundup_power2_divisions:4,expandable_segments:True": """
tensor = empty(1200 << 10, device)
(block,) = [b for b in blocks_in_use(device).values() if b["address"] == tensor.data_ptr()]
assert block["size"] == 1280 << 10, block
""",
    "garbage_collection_threshold:0.5": """
limit_to(200 * MIB)
oldest, newest = empty(40 * MIB, device), empty(44 * MIB, device)
addresses = oldest.data_ptr(), newest.data_ptr()
del oldest
del newest
tensor = empty(48 * MIB, device)
left = [s["address"] for s in segments(device)]
assert addresses[0] not in left and addresses[1] in left
assert stats(device)["num_alloc_retries"] == 0
""",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_setting(setting: str) -> None:
    set_it = f"torch._C._accelerator_setAllocatorSettings({setting!r})"
    run_program(SETTINGS[setting], before=set_it)


# ---- A device that has the memory, but does not give as much in one piece ----

AT_ONCE = """
from tests.lying_drivers import replaced
from torch_outboard.drivers.contract import Status

LARGEST = 64 * MIB

def device_properties(original, device, properties):
    status = original.device_properties(None, device, properties)
    properties.contents.max_allocation = LARGEST
    return status

def allocate(original, wanted, address):
    if wanted.contents.bytes > LARGEST:
        return Status.OUT_OF_MEMORY
    return original.allocate(None, wanted, address)

replaced(list, device_properties=device_properties, allocate=allocate)()
"""


def test_the_error_names_the_largest_allocation() -> None:
    run_program(
        """
kept = [empty(LARGEST, device)]
words = "64.00 MiB were asked for", "has at most 64.00 MiB", "256.00 MiB"
fails(lambda: empty(LARGEST + 1, device), *words, kind=torch.OutOfMemoryError)
# Errors for other reasons do not mention it.
try:
    while True:
        kept.append(empty(LARGEST, device))
except torch.OutOfMemoryError as error:
    assert "One allocation" not in str(error), error
""",
        before=AT_ONCE,
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_MEMORY=str(256 << 20),
    )
