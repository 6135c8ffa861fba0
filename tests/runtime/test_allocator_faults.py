"""The caching allocator with streams that are late, drivers that fail, forks and exits."""

from __future__ import annotations

import pytest

from tests.runtime.memory_checks import run_program
from tests.support import run_python

pytestmark = [pytest.mark.by_turns(3), pytest.mark.separate]


def run_late(code: str) -> None:
    run_program("side = torch.Stream(device)\n" + code, OUTBOARD_TORTURE="count")


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
calls = torture.calls()["event_record"]
tensor = empty(4096, device)
tensor.record_stream(side)
del tensor
assert torture.calls()["event_record"] == calls

# Without room the allocator waits for the stream instead of giving up.
tensor = empty(64 * MIB, device)
work = busy(side)
tensor.record_stream(side)
del tensor
limit_to(stats(device)["reserved_bytes.all.current"] + MIB)
assert empty(64 * MIB, device).numel() == 64 * MIB
assert torture.misuses() == 0
""")


def test_events_that_cannot_be_recorded() -> None:
    run_late("""
for call in ("event_create", "event_record"):
    tensor = empty(4096, device)
    address = tensor.data_ptr()
    work = busy(side)
    tensor.record_stream(side)
    torture.fail(call)
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
assert torture.misuses() == 0

# Nothing is kept of what another stream works on.
work = busy(side)
live = torture.live()
tensors = [empty(size, device) for size in (1, 5000, 2 * MIB, 30 * MIB) for _ in range(5)]
for tensor in tensors:
    tensor.record_stream(side)
del tensor
tensors.clear()
torch.accelerator.empty_cache()
after = torture.live()
assert after["allocations"] <= live["allocations"], torture.leaks()
assert after["events"] == live["events"], torture.leaks()

# The driver is not asked for what is cached.
for size in (512, 100_000, 3 * MIB, 30 * MIB):
    empty(size, device)
    before = torture.calls()
    _C._benchmark_allocator(size, 1000)
    assert torture.calls() == before
""")


def test_private_pools_hold_back_events() -> None:
    run_late("""
pool = _C.create_memory_pool()
_C.begin_allocate_to_pool(0, pool)
tensor = empty(4096, device)
address = tensor.data_ptr()
work = busy(side)
tensor.record_stream(side)
calls = torture.calls()["event_record"]
del tensor
assert torture.calls()["event_record"] == calls
assert empty(4096, device).data_ptr() != address
_C.end_allocate_to_pool(0, pool)
assert torture.calls()["event_record"] == calls + 1
side.synchronize()
del work
_C.release_memory_pool(0, pool)
torch.accelerator.empty_cache()
assert not _C.memory_snapshot(pool)
""")


def test_a_slow_driver_call_stops_no_other_thread() -> None:
    run_late("""
empty(512, device)
torture.configure(slow={"allocate": 500_000, "deallocate": 500_000})
# torch.accelerator.empty_cache keeps the interpreter lock, and so all threads.
for slow_call in (lambda: empty(40 * MIB, device), lambda: _C.empty_memory_pool((0, 0))):
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
torture.fail("allocate", status="error")
try:
    empty(40 * MIB, device)
except torch.OutOfMemoryError as error:
    raise AssertionError("not a lack of memory") from error
except RuntimeError as error:
    assert "allocate" in str(error), error
else:
    raise AssertionError("the failure was lost")
assert stats(device)["reserved_bytes.all.current"] == reserved
assert empty(40 * MIB, device).numel() == 40 * MIB

# The driver says no once: the cache is emptied, and it is asked again.
torture.fail("allocate", status="out_of_memory")
retries = stats(device)["num_alloc_retries"]
assert empty(80 * MIB, device).numel() == 80 * MIB
assert stats(device)["num_alloc_retries"] == retries + 1

# It says no always.
torture.configure(limit=100 * MIB)
fails(lambda: empty(150 * MIB, device), kind=torch.OutOfMemoryError)
torture.configure(limit=0)

# What fails while memory is given back is raised at the next synchronization, once.
empty(40 * MIB, device)
torture.fail("deallocate")
torch.accelerator.empty_cache()
fails(torch.accelerator.synchronize, "deallocate")
torch.accelerator.synchronize()
assert kept.cpu().tolist() == list(range(100))
""")


# ---- Ends of processes ----


def test_a_forked_child_raises_and_its_deleters_do_nothing() -> None:
    run_program("""
tensor = torch.arange(100, device=device)

# Other threads are in the midst of allocating at the time of the fork.
stop = threading.Event()
def churn():
    while not stop.is_set():
        _C._benchmark_allocator(4096, 1000)
threads = [threading.Thread(target=churn, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        try:
            fails(lambda: empty(100, device), "forked")
            del tensor
            fails(torch.accelerator.empty_cache, "forked")
            fails(_C.memory_snapshot, "forked")
            assert torch.ones(100).sum() == 100
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(2)
        os._exit(0)
    deadline = time.monotonic() + 30
    while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status[1]) == 0, status
stop.set()
for thread in threads:
    thread.join()
assert tensor.cpu().tolist() == list(range(100))
""")


def test_tensors_that_outlive_the_driver() -> None:
    run_program("""
import builtins
builtins.kept = [empty(100, device), empty(30 * MIB, device)]
_C.finalize_driver()
del kept[0]
fails(lambda: empty(100, device), "exiting")
""")


def test_registration_starts_nothing() -> None:
    run_python("""
        import torch
        import torch_outboard
        from torch_outboard import _C

        assert torch.accelerator.memory_stats(0) == {}
        torch.accelerator.empty_cache()
        assert _C.device_of_address(torch.empty(10).data_ptr()) == -1
        assert not torch.empty(10).is_pinned()
        assert not _C.is_pinned_address(torch.empty(10).data_ptr())
        assert not _C.driver_initialized()
    """)
