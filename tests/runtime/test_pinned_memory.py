"""Pinned host memory: the caching allocator behind pin_memory(), and memory that is registered."""

import gc
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.runtime.memory_checks import run_program
from torch_outboard import _C

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


def test_pin_memory_copies_into_pinned_memory(device: torch.device) -> None:
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
    assert _C.testing.is_pinned_address(start)
    assert _C.testing.is_pinned_address(start + 7999)
    assert not _C.testing.is_pinned_address(start - 1)
    assert not _C.testing.is_pinned_address(0)
    storage = source.untyped_storage()
    assert not storage.is_pinned(device.type)
    assert storage.pin_memory(device.type).is_pinned(device.type)


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
    assert not _C.testing.is_pinned_address(address)


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
    faults.configure(delay_us=300_000)
    there.copy_(pinned, non_blocking=True)
    faults.configure(delay_us=0)
    if failing:
        faults.fail(failing)
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
assert faults.misuses() == 0
""",
        OUTBOARD_FAULTS="count",
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
faults.fail("host_allocate", status="out_of_memory")
pinned = torch.empty(1 << 24, dtype=torch.uint8, pin_memory=True)
assert _C.pinned_memory_stats()["num_host_free"] == freed + 1
assert pinned.is_pinned()

faults.fail("host_allocate", status="out_of_memory", repeat=True)
pin = lambda: torch.empty(1 << 25, dtype=torch.uint8, pin_memory=True)
fails(pin, "host_allocate", kind=torch.OutOfMemoryError)
faults.reset()

del pinned
faults.fail("host_deallocate")
torch.accelerator.empty_host_cache()
fails(torch.accelerator.synchronize, "host_deallocate")
assert faults.live()["pinned"] == 0, faults.leaks()
""",
        OUTBOARD_FAULTS="count",
    )


# ---- Ordinary memory that is pinned where it lies ----


@pytest.fixture
def register(device: torch.device, device_module) -> Callable[[torch.Tensor], bool]:
    probe = torch.zeros(1)
    if not device_module.register_host_memory(probe):
        pytest.skip("the driver cannot register memory of the host")
    device_module.unregister_host_memory(probe)
    return device_module.register_host_memory


def test_registered_memory_is_pinned(device_module, register):
    x = torch.arange(1000.0)
    assert register(x)
    assert x.is_pinned()
    assert x[500:].is_pinned()
    assert x.pin_memory().data_ptr() == x.data_ptr()
    assert not _C.testing.is_pinned_address(x.data_ptr() - 1)
    assert not _C.testing.is_pinned_address(x.data_ptr() + 4000)
    device_module.unregister_host_memory(x)
    assert not x.is_pinned()


@pytest.mark.separate
@pytest.mark.faults
def test_copies_go_from_and_to_it(device, device_module, register):
    """A tensor that is gone is still copied from: its memory stays until it is unregistered."""
    x, y = torch.full((1 << 20,), 3.0), torch.zeros(1 << 20)
    register(x)
    register(y)
    kept = x.untyped_storage()
    on_device = x.to(device, non_blocking=True)
    del x
    torch.full((1 << 20,), 5.0)
    y.copy_(on_device, non_blocking=True)
    torch.accelerator.synchronize()
    assert y.eq(3).all()
    assert on_device.cpu().eq(3).all()
    device_module.unregister_host_memory(torch.empty(0).set_(kept))
    device_module.unregister_host_memory(y)


def test_what_cannot_be_registered(device, device_module, register):
    x = torch.zeros(8)
    register(x)
    sparse, there = x.new_empty(8).to_sparse(), torch.zeros(8, device=device)
    for wrong in (x, x[4:], torch.empty(0), there, sparse):
        with pytest.raises(ValueError, match=r"regist|pinned|strided"):
            register(wrong)
    device_module.unregister_host_memory(x)
    for wrong in (x, torch.zeros(8)):
        with pytest.raises(ValueError, match="was not registered"):
            device_module.unregister_host_memory(wrong)
