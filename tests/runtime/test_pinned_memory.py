"""Pinned host memory: the caching allocator behind pin_memory()."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.runtime.memory_checks import run_program
from torch_outboard import _C

pytestmark = [pytest.mark.separate, pytest.mark.torture]

GIVES_BACK = hasattr(torch.accelerator, "empty_host_cache")
needs_giving_back = pytest.mark.skipif(
    not GIVES_BACK, reason="PyTorch gives cached pinned memory back from 2.12 on"
)


@pytest.fixture(autouse=True)
def nothing_left_behind(device: torch.device, settled_heap: None) -> Iterator[None]:
    torch.empty(1, device=device)
    if not GIVES_BACK:
        yield
        return
    torch.accelerator.synchronize()
    torch.accelerator.empty_host_cache()
    before = _C.pinned_memory_stats()["allocated_bytes"]["current"]
    yield
    gc.collect()
    torch.accelerator.synchronize()
    torch.accelerator.empty_host_cache()
    # Before 2.13 "active_bytes" do not fall where no stream used the memory.
    assert _C.pinned_memory_stats()["allocated_bytes"]["current"] == before


def test_pin_memory_copies_into_pinned_memory() -> None:
    source = torch.arange(1000)
    pinned = source.pin_memory()
    assert pinned.is_pinned()
    assert not source.is_pinned()
    assert pinned.device.type == "cpu"
    torch.testing.assert_close(pinned, source)
    assert torch.empty(10, pin_memory=True).is_pinned()
    assert torch.empty(0).pin_memory().numel() == 0
    assert pinned[500:].is_pinned()
    start = pinned.data_ptr()
    assert _C.is_pinned_address(start)
    assert _C.is_pinned_address(start + 7999)
    assert not _C.is_pinned_address(start - 1)
    assert not _C.is_pinned_address(0)


@needs_giving_back
def test_freed_memory_is_used_again_and_can_be_given_back() -> None:
    before = _C.pinned_memory_stats()
    pinned = torch.empty(5000, dtype=torch.uint8, pin_memory=True)
    address = pinned.data_ptr()
    during = _C.pinned_memory_stats()
    assert during["active_bytes"]["current"] - before["active_bytes"]["current"] == 8192
    assert during["num_host_alloc"] == before["num_host_alloc"] + 1
    del pinned
    assert torch.empty(5000, dtype=torch.uint8, pin_memory=True).data_ptr() == address
    assert _C.pinned_memory_stats()["num_host_alloc"] == during["num_host_alloc"]
    torch.accelerator.empty_host_cache()
    after = _C.pinned_memory_stats()
    assert after["num_host_free"] == during["num_host_free"] + 1
    assert not _C.is_pinned_address(address)


def test_statistics_are_reset() -> None:
    torch.empty(5000, pin_memory=True)
    _C.reset_peak_pinned_memory_stats()
    _C.reset_accumulated_pinned_memory_stats()
    stats = _C.pinned_memory_stats()
    assert stats["active_bytes"]["peak"] == stats["active_bytes"]["current"]
    assert stats["active_bytes"]["allocated"] == 0


def test_data_loader(device: torch.device) -> None:
    data = TensorDataset(torch.arange(64.0).reshape(16, 4), torch.arange(16))
    seen = []
    for inputs, labels in DataLoader(data, batch_size=4, pin_memory=True):
        assert inputs.is_pinned()
        assert labels.is_pinned()
        seen.append(inputs.to(device, non_blocking=True).cpu())
    torch.testing.assert_close(torch.cat(seen), data.tensors[0])


PREPARE = """
there = torch.zeros(1 << 20, dtype=torch.uint8, device=device)
torch.accelerator.synchronize()
"""


@pytest.mark.by_turns(2)
def test_memory_of_a_late_copy_is_not_reused() -> None:
    run_program(
        PREPARE
        + """
for failing in (None, "event_create", "event_record"):
    pinned = torch.full((1 << 20,), 7, dtype=torch.uint8).pin_memory()
    address = pinned.data_ptr()
    torture.configure(delay_us=500_000)
    there.copy_(pinned, non_blocking=True)
    torture.configure(delay_us=0)
    if failing:
        torture.fail(failing)
    started = time.perf_counter()
    del pinned
    assert time.perf_counter() - started < 0.1, "the deleter waited"
    other = torch.full((1 << 20,), 9, dtype=torch.uint8).pin_memory()
    assert other.data_ptr() != address, "memory was reused too early"
    try:
        torch.accelerator.synchronize()
        assert failing is None, "the failure was lost"
    except RuntimeError as error:
        assert failing is not None and failing in str(error), error
    torch.accelerator.synchronize()
    assert there.cpu().unique().tolist() == [7]
    del other
    found = [torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(4)]
    assert address in [t.data_ptr() for t in found]
    del found
assert torture.misuses() == 0
""",
        OUTBOARD_TORTURE="count",
    )


@pytest.mark.by_turns(2)
@needs_giving_back
def test_driver_failures() -> None:
    run_program(
        PREPARE
        + """
# The cache is emptied before giving up.
torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True)
freed = _C.pinned_memory_stats()["num_host_free"]
torture.fail("host_allocate", status="out_of_memory")
pinned = torch.empty(1 << 24, dtype=torch.uint8, pin_memory=True)
assert _C.pinned_memory_stats()["num_host_free"] == freed + 1
assert pinned.is_pinned()

torture.fail("host_allocate", status="out_of_memory", repeat=True)
pin = lambda: torch.empty(1 << 25, dtype=torch.uint8, pin_memory=True)
fails(pin, "host_allocate", kind=torch.OutOfMemoryError)
torture.reset()

del pinned
torture.fail("host_deallocate")
torch.accelerator.empty_host_cache()
fails(torch.accelerator.synchronize, "host_deallocate")
assert torture.live()["pinned"] == 0, torture.leaks()
""",
        OUTBOARD_TORTURE="count",
    )


@pytest.mark.by_turns(2)
def test_a_forked_child() -> None:
    run_program(
        PREPARE
        + """
pinned = torch.ones(10).pin_memory()
child = os.fork()
if child == 0:
    assert not pinned.is_pinned()
    assert pinned.sum() == 10
    del pinned
    try:
        torch.ones(10).pin_memory()
    except RuntimeError as error:
        os._exit(0 if "fork" in str(error) else 2)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )
