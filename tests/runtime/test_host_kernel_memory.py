"""CPU memory that comes from the device's cache while a host kernel runs."""

import gc
import itertools
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch

from tests.runtime.memory_checks import check_segments, check_statistics, run_program, stats
from tests.support import in_threads
from torch_outboard import _C


@pytest.fixture
def scope(
    device: torch.device, shares_memory: bool, settled_heap: None
) -> Iterator[_C.testing.CpuKernelScope]:
    """A scope on the first device; what it made is gone at the end."""
    if not shares_memory:
        pytest.skip("host kernels do not run on memory that the host cannot touch")
    torch.empty(1, device=device)
    gc.collect()
    before = stats(device)["allocated_bytes.all.current"]
    yield _C.testing.CpuKernelScope(device.index)
    gc.collect()
    assert stats(device)["allocated_bytes.all.current"] == before
    check_segments(device)
    check_statistics(device)


def test_what_becomes_of_a_tensor(device: torch.device, scope: _C.testing.CpuKernelScope) -> None:
    """It grows after its scope, is copied on write, or has no bytes."""
    before = stats(device)
    with scope:
        nothing = torch.empty(0)
    assert nothing.numel() == 0
    assert stats(device) == before
    with scope:
        grows, tensor = torch.arange(10), torch.arange(100)
    grows.resize_(1000)
    assert _C.testing.device_of_address(grows.data_ptr()) == -1
    torch.testing.assert_close(grows[:10], torch.arange(10))
    copy = torch._lazy_clone(tensor)
    copy.add_(1)
    torch.testing.assert_close(tensor, torch.arange(100))
    torch.testing.assert_close(copy, torch.arange(1, 101))


def test_who_is_in_a_scope(device: torch.device, scope: _C.testing.CpuKernelScope) -> None:
    """Scopes nest; other threads are not in it."""
    with scope:
        with _C.testing.CpuKernelScope(device.index):
            inner = torch.ones(10)
        outer = torch.ones(10)
        (elsewhere,) = in_threads(lambda _: torch.ones(1000), 1)
    outside = torch.ones(10)
    found = [_C.testing.device_of_address(t.data_ptr()) for t in (inner, outer, elsewhere, outside)]
    assert found == [device.index, device.index, -1, -1]


def test_freeing_inside_and_outside(scope: _C.testing.CpuKernelScope) -> None:
    outside = torch.ones(1000)
    with scope:
        inside = torch.ones(1000)
        address = inside.data_ptr()
        del outside, inside
        again = torch.ones(1000)
    assert again.data_ptr() == address
    kept = [again]
    del again
    in_threads(lambda _: kept.clear(), 1)


def test_the_raw_interface(device: torch.device, scope: _C.testing.CpuKernelScope) -> None:
    before = stats(device)["allocated_bytes.all.current"]
    for allocated_in, freed_in in itertools.product((scope, nullcontext()), repeat=2):
        with allocated_in:
            address = _C.testing.raw_allocate_on_cpu(1000)
        gained = stats(device)["allocated_bytes.all.current"] - before
        assert gained == (1024 if allocated_in is scope else 0)
        with freed_in:
            _C.testing.raw_deallocate_on_cpu(address)
        assert stats(device)["allocated_bytes.all.current"] == before


@pytest.mark.by_turns(3)
def test_a_scope_waits_for_work_of_other_threads_on_its_stream() -> None:
    run_program(
        """
if not _C.shares_host_memory(0):
    raise SystemExit
torch.accelerator.synchronize()
addresses = []

def late_copy():
    # Freed here, while the copy into it starts 0.5 seconds late.
    there = busy(torch.accelerator.current_stream())
    addresses.append(there.data_ptr())

with _C.testing.CpuKernelScope(0):
    thread = threading.Thread(target=late_copy)
    thread.start()
    thread.join()
    tensor = torch.zeros(4 * MIB, dtype=torch.uint8)
    assert tensor.data_ptr() == addresses[0]
time.sleep(0.6)
assert not tensor.any(), "work given to the stream earlier wrote over it"
""",
        OUTBOARD_FAULTS="count",
    )


@pytest.mark.by_turns(3)
def test_a_forked_child_frees_its_own_memory_alone() -> None:
    run_program("""
if not _C.shares_host_memory(0):
    raise SystemExit
outside = _C.testing.raw_allocate_on_cpu(1000)
with _C.testing.CpuKernelScope(0):
    inside = _C.testing.raw_allocate_on_cpu(1000)
    tensor = torch.arange(1000)
child = os.fork()
if child == 0:
    _C.testing.raw_deallocate_on_cpu(outside)
    _C.testing.raw_deallocate_on_cpu(inside)
    assert tensor.sum() == 499500
    del tensor
    _C.testing.raw_deallocate_on_cpu(_C.testing.raw_allocate_on_cpu(1000))
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert tensor.sum() == 499500
""")
