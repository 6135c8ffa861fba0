"""The caching allocator as a user sees it, and under faults of the driver."""

from __future__ import annotations

import gc
import os
import random
import threading
from collections.abc import Iterator

import pytest
import torch

from tests.runtime.memory_checks import (
    LARGE_SEGMENT,
    SMALL_SEGMENT,
    AllocatorModel,
    blocks_in_use,
    check_segments,
    check_statistics,
    check_tensors,
    empty,
    forget_everything,
    rounded,
    segments,
    stats,
)
from tests.support import run_python
from torch_outboard import _C

pytestmark = [pytest.mark.separate, pytest.mark.torture]

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_left_behind(device: torch.device) -> Iterator[None]:
    torch.empty(1, device=device)
    forget_everything()
    before = stats(device)["allocated_bytes.all.current"]
    reserved = stats(device)["reserved_bytes.all.current"]
    yield
    _C.set_memory_fraction(1.0, device.index)
    forget_everything()
    assert stats(device)["allocated_bytes.all.current"] == before
    assert stats(device)["active_bytes.all.current"] == before
    assert stats(device)["reserved_bytes.all.current"] <= reserved
    check_segments(device)


# ---- Sizes, reuse, splitting ----


@pytest.mark.parametrize("size", [1, 511, 512, 513, 4096, MIB - 1, MIB])
def test_small_sizes_are_rounded_up_to_512_bytes(device: torch.device, size: int) -> None:
    before = stats(device)
    tensor = empty(size, device)
    after = stats(device)
    gained = after["allocated_bytes.small_pool.current"]
    assert gained - before["allocated_bytes.small_pool.current"] == rounded(size)
    requested = after["requested_bytes.all.current"] - before["requested_bytes.all.current"]
    assert requested == size
    check_tensors([tensor], device)


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (1, SMALL_SEGMENT),
        (MIB, SMALL_SEGMENT),
        (MIB + 1, LARGE_SEGMENT),
        (9 * MIB, LARGE_SEGMENT),
        (10 * MIB, 10 * MIB),
        (21 * MIB + 1, 22 * MIB),
    ],
)
def test_segment_sizes(device: torch.device, size: int, segment: int) -> None:
    known = {s["address"] for s in segments(device)}
    stream = torch.Stream(device)
    with stream:
        tensor = empty(size, device)
    (new,) = (s for s in segments(device) if s["address"] not in known)
    assert new["total_size"] == segment
    assert new["address"] <= tensor.data_ptr() < new["address"] + segment
    assert _C.base_allocation(tensor.data_ptr() + size - 1) == (new["address"], segment)


def test_zero_bytes_take_no_memory(device: torch.device) -> None:
    before = stats(device)
    tensor = empty(0, device)
    assert tensor.data_ptr() == 0
    assert tensor.device == device
    assert stats(device) == before


@pytest.mark.parametrize("size", [100, 3 * MIB, 50 * MIB])
def test_a_freed_block_is_used_again_at_once(device: torch.device, size: int) -> None:
    tensor = empty(size, device)
    address = tensor.data_ptr()
    reserved = stats(device)["num_device_alloc"]
    del tensor
    assert empty(size, device).data_ptr() == address
    assert stats(device)["num_device_alloc"] == reserved


def test_best_fit_takes_the_smallest_hole_that_is_large_enough(device: torch.device) -> None:
    sizes = [64 << 10, 512, 16 << 10, 512, 32 << 10, 512]
    with torch.Stream(device):
        row = [empty(size, device) for size in sizes]
        addresses = [t.data_ptr() for t in row]
        assert addresses == sorted(addresses)
        row[0] = row[2] = row[4] = None
        assert empty(20 << 10, device).data_ptr() == addresses[4]
        assert empty(16 << 10, device).data_ptr() == addresses[2]
        assert empty(33 << 10, device).data_ptr() == addresses[0]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (0, 2, 1, 3)])
def test_free_neighbours_merge(device: torch.device, order: tuple[int, ...]) -> None:
    with torch.Stream(device):
        quarters = [empty(SMALL_SEGMENT // 4, device) for _ in range(4)]
        base = min(t.data_ptr() for t in quarters)
        for i in order:
            quarters[i] = None
            check_segments(device)
        halves = [empty(SMALL_SEGMENT // 2, device) for _ in range(2)]
    assert sorted(t.data_ptr() for t in halves) == [base, base + SMALL_SEGMENT // 2]


def test_streams_have_pools_of_their_own(device: torch.device) -> None:
    tensor = empty(4096, device)
    address = tensor.data_ptr()
    del tensor
    stream = torch.Stream(device)
    with stream:
        other = empty(4096, device)
        assert other.data_ptr() != address
        other_address = other.data_ptr()
        del other
    assert empty(4096, device).data_ptr() == address
    with stream:
        assert empty(4096, device).data_ptr() == other_address


def test_other_devices_have_memory_of_their_own(device: torch.device) -> None:
    if torch.accelerator.device_count() < 2:
        pytest.skip("needs two devices")
    other = torch.device(device.type, 1)
    torch.empty(1, device=other)
    before = stats(device)
    tensor = empty(100, other)
    assert stats(device) == before
    assert _C.device_of_address(tensor.data_ptr()) == 1
    assert _C.device_of_address(empty(100, device).data_ptr()) == 0
    assert _C.device_of_address(torch.empty(100).data_ptr()) == -1


# ---- Statistics ----


def test_every_statistic_of_one_tensor(device: torch.device) -> None:
    torch.accelerator.reset_peak_memory_stats(device.index)
    torch.accelerator.reset_accumulated_memory_stats(device.index)
    before = stats(device)
    with torch.Stream(device):
        tensor = empty(1000, device)
        during = stats(device)
        del tensor
        after = stats(device)
    changed = {
        "allocation": 1,
        "allocated_bytes": 1024,
        "active": 1,
        "active_bytes": 1024,
        "requested_bytes": 1000,
        "segment": 1,
        "reserved_bytes": SMALL_SEGMENT,
        "inactive_split": 1,
        "inactive_split_bytes": SMALL_SEGMENT - 1024,
    }
    for name, amount in changed.items():
        for pool in ("all", "small_pool"):
            key = f"{name}.{pool}"
            assert during[f"{key}.current"] - before[f"{key}.current"] == amount, key
            assert during[f"{key}.peak"] - before[f"{key}.peak"] == amount, key
            assert during[f"{key}.allocated"] == amount, key
            assert during[f"{key}.freed"] == 0, key
            stays = name in ("segment", "reserved_bytes")
            assert after[f"{key}.freed"] == (0 if stays else amount), key
            gone = after[f"{key}.current"] - before[f"{key}.current"]
            assert gone == (amount if stays else 0), key
        assert during[f"{name}.large_pool.current"] == before[f"{name}.large_pool.current"]
    assert during["num_device_alloc"] == 1
    assert during["num_device_free"] == 0


def test_peaks_and_their_reset(device: torch.device) -> None:
    start = torch.accelerator.memory_allocated(device.index)
    torch.accelerator.reset_peak_memory_stats(device.index)
    tensor = empty(8 * MIB, device)
    del tensor
    assert torch.accelerator.memory_allocated(device.index) == start
    assert torch.accelerator.max_memory_allocated(device.index) >= start + 8 * MIB
    assert torch.accelerator.max_memory_reserved(device.index) >= start + 8 * MIB
    torch.accelerator.reset_peak_memory_stats(device.index)
    assert torch.accelerator.max_memory_allocated(device.index) == start


def test_empty_cache_gives_back_all_that_is_unused(device: torch.device) -> None:
    kept = empty(5 * MIB, device)
    unused = [empty(size, device) for size in (100, 30 * MIB, 2 * MIB)]
    del unused
    torch.accelerator.empty_cache()
    assert all(s["allocated_size"] > 0 for s in segments(device))
    assert kept.data_ptr() in blocks_in_use(device)


def test_memory_info(device: torch.device) -> None:
    free, total = torch.accelerator.get_memory_info(device.index)
    assert 0 < free <= total
    tensor = empty(64 * MIB, device)
    less, same = torch.accelerator.get_memory_info(device.index)
    assert (less, same) == (free - 64 * MIB, total)
    del tensor


# ---- Running out ----


def limit_to(bytes_more: int, device: torch.device) -> None:
    """Lets this process take `bytes_more` on top of what it has."""
    total = torch.accelerator.get_memory_info(device.index)[1]
    reserved = stats(device)["reserved_bytes.all.current"]
    _C.set_memory_fraction((reserved + bytes_more + 4096) / total, device.index)


def test_out_of_memory_says_what_matters_and_leaves_all_intact(device: torch.device) -> None:
    kept = torch.arange(1000, device=device)
    total = torch.accelerator.get_memory_info(device.index)[1]
    errors = stats(device)["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        empty(total + 1, device)
    message = str(caught.value)
    for part in (str(device), "asked for", "are free", "reserved", "in use", "largest free block"):
        assert part in message
    assert "max_split_size_mb" in message
    assert stats(device)["num_ooms"] == errors + 1
    torch.testing.assert_close(kept.cpu(), torch.arange(1000))
    assert empty(100, device).numel() == 100


def test_sizes_beyond_any_memory_are_out_of_memory(device: torch.device) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        empty((1 << 62) - 1, device)


def test_cached_memory_is_given_back_before_giving_up(device: torch.device) -> None:
    limit_to(64 * MIB, device)
    cached = [empty(12 * MIB, device) for _ in range(5)]
    with pytest.raises(torch.OutOfMemoryError, match="memory fraction"):
        empty(48 * MIB, device)
    del cached
    retries = stats(device)["num_alloc_retries"]
    assert empty(48 * MIB, device).numel() == 48 * MIB
    assert stats(device)["num_alloc_retries"] == retries + 1


def test_near_the_limit_a_segment_is_no_larger_than_needed(device: torch.device) -> None:
    limit_to(4 * MIB, device)
    assert empty(3 * MIB, device).numel() == 3 * MIB


def test_memory_fraction(device: torch.device) -> None:
    assert _C.memory_fraction(device.index) == 1.0
    _C.set_memory_fraction(0.25, device.index)
    assert _C.memory_fraction(device.index) == 0.25
    total = torch.accelerator.get_memory_info(device.index)[1]
    with pytest.raises(torch.OutOfMemoryError, match="memory fraction"):
        empty(total // 2, device)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="fraction"):
            _C.set_memory_fraction(wrong, device.index)
    with pytest.raises(RuntimeError, match="device index 77"):
        _C.set_memory_fraction(0.5, 77)


# ---- Private pools ----


def test_private_pools(device: torch.device) -> None:
    pool, other = _C.create_memory_pool(), _C.create_memory_pool()
    assert pool != other
    cached = empty(4096, device).data_ptr()
    _C.begin_allocate_to_pool(device.index, pool)
    inside = empty(4096, device)
    _C.end_allocate_to_pool(device.index, pool)
    assert inside.data_ptr() != cached
    assert empty(4096, device).data_ptr() == cached
    (segment,) = (s for s in segments(device) if s["segment_pool_id"] == pool)
    assert segment["address"] <= inside.data_ptr() < segment["address"] + segment["total_size"]
    assert [s["address"] for s in _C.memory_snapshot(pool)] == [segment["address"]]
    address = inside.data_ptr()
    del inside
    torch.accelerator.empty_cache()
    assert _C.memory_snapshot(pool), "a held pool keeps its memory"

    _C.begin_allocate_to_pool(device.index, pool)
    assert empty(4096, device).data_ptr() == address
    _C.end_allocate_to_pool(device.index, pool)
    _C.release_memory_pool(device.index, pool)
    _C.release_memory_pool(device.index, pool)
    torch.accelerator.empty_cache()
    assert not _C.memory_snapshot(pool)


def test_a_released_pool_lives_as_long_as_its_tensors(device: torch.device) -> None:
    pool = _C.create_memory_pool()
    _C.begin_allocate_to_pool(device.index, pool)
    tensor = torch.full((1000,), 7, device=device)
    _C.end_allocate_to_pool(device.index, pool)
    _C.release_memory_pool(device.index, pool)
    torch.accelerator.empty_cache()
    torch.testing.assert_close(tensor.cpu(), torch.full((1000,), 7))
    del tensor
    torch.accelerator.empty_cache()
    assert not _C.memory_snapshot(pool)


def test_private_pools_serve_the_thread_that_began(device: torch.device) -> None:
    pool = _C.create_memory_pool()
    _C.begin_allocate_to_pool(device.index, pool)
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(empty(4096, device)))
    thread.start()
    thread.join()
    assert not _C.memory_snapshot(pool)
    _C.end_allocate_to_pool(device.index, pool)
    _C.release_memory_pool(device.index, pool)


def test_wrong_use_of_private_pools_raises(device: torch.device) -> None:
    pool = _C.create_memory_pool()
    with pytest.raises(RuntimeError, match="begin before you end"):
        _C.end_allocate_to_pool(device.index, pool)
    with pytest.raises(RuntimeError, match="not held"):
        _C.release_memory_pool(device.index, pool)
    with pytest.raises(ValueError, match="default"):
        _C.begin_allocate_to_pool(device.index, (0, 0))
    _C.begin_allocate_to_pool(device.index, pool)
    with pytest.raises(RuntimeError, match="in use already"):
        _C.begin_allocate_to_pool(device.index, pool)
    _C.end_allocate_to_pool(device.index, pool)
    _C.release_memory_pool(device.index, pool)


# ---- Copies of memory ----


def test_copy_on_write(device: torch.device) -> None:
    tensor = torch.arange(5000, device=device)
    copy = torch._lazy_clone(tensor)
    copy.add_(1)
    torch.testing.assert_close(tensor.cpu(), torch.arange(5000))
    torch.testing.assert_close(copy.cpu(), torch.arange(1, 5001))


def test_cloned_memory_is_a_block_of_its_own(device: torch.device) -> None:
    tensor = torch.arange(5000, device=device)
    address = _C._clone_memory(tensor.data_ptr(), 40000)
    assert address != tensor.data_ptr()
    again = torch.empty(5000, dtype=torch.int64, device=device)
    assert again.data_ptr() == address
    torch.testing.assert_close(again.cpu(), torch.arange(5000))


# ---- Threads and random histories ----


def test_freeing_in_another_thread(device: torch.device) -> None:
    tensors = [empty(size, device) for size in (100, 3 * MIB)]
    addresses = {t.data_ptr() for t in tensors}
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    assert not addresses & set(blocks_in_use(device))


def random_size(rng: random.Random) -> int:
    return int(2 ** rng.uniform(0, 24))


@pytest.mark.parametrize("seed", range(6))
def test_random_history_against_a_model(device: torch.device, seed: int) -> None:
    rng = random.Random(seed)
    model = AllocatorModel(device)
    streams = [torch.accelerator.current_stream(), torch.Stream(device), torch.Stream(device)]
    live: list[torch.Tensor] = []
    for step in range(600):
        action = rng.random()
        if action < 0.52:
            size = random_size(rng)
            with rng.choice(streams):
                live.append(empty(size, device))
            model.make(size)
        elif action < 0.97 and live:
            tensor = live.pop(rng.randrange(len(live)))
            if rng.random() < 0.3:
                tensor.record_stream(rng.choice(streams))
            model.let_go(tensor.numel())
            del tensor
        elif action < 0.985:
            torch.accelerator.empty_cache()
        else:
            torch.accelerator.reset_peak_memory_stats(device.index)
        if step % 20 == 0:
            model.check()
            check_segments(device)
            check_statistics(device)
            check_tensors(live, device)
    for tensor in live:
        model.let_go(tensor.numel())
    live.clear()
    del tensor
    model.check()
    forget_everything()
    check_statistics(device)


def test_many_threads(device: torch.device) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        live: list[tuple[torch.Tensor, int]] = []
        try:
            with torch.Stream(device) if seed % 2 else torch.accelerator.current_stream():
                for step in range(150):
                    if len(live) < 8 and rng.random() < 0.6:
                        value = seed * 1000 + step
                        size = rng.choice([10, 1000, 100_000, 400_000])
                        live.append((torch.full((size,), value, device=device), value))
                    elif live:
                        tensor, value = live.pop(rng.randrange(len(live)))
                        assert bool((tensor == value).all()), "another thread wrote to this memory"
                    if step % 50 == 49:
                        torch.accelerator.empty_cache()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    gc.collect()
    check_segments(device)
    check_statistics(device)


# ---- Settings ----

SETTINGS = """
    import torch
    from torch_outboard import _C
    from tests.runtime.memory_checks import *

    MIB = 1 << 20
    device = torch.device(torch._C._get_privateuse1_backend_name(), 0)
    torch.empty(1, device=device)
"""


def test_max_split_size(device: torch.device) -> None:
    run_python(
        SETTINGS
        + """
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
    """,
        PYTORCH_ALLOC_CONF="max_split_size_mb:32",
    )


def test_oversize_blocks_go_first_when_memory_is_short(device: torch.device) -> None:
    run_python(
        SETTINGS
        + """
    unused = [empty(64 * MIB, device), empty(24 * MIB, device)]
    kept = unused[1].data_ptr()
    unused.clear()
    total = torch.accelerator.get_memory_info(0)[1]
    _C.set_memory_fraction(130 * MIB / total, 0)
    tensor = empty(90 * MIB, device)
    assert kept in [s["address"] for s in segments(device)], "more was given back than needed"
    """,
        PYTORCH_ALLOC_CONF="max_split_size_mb:32",
    )


def test_rounding_to_divisions_of_powers_of_two(device: torch.device) -> None:
    run_python(
        SETTINGS
        + """
    tensor = empty(1200 << 10, device)
    (block,) = [b for b in blocks_in_use(device).values() if b["address"] == tensor.data_ptr()]
    assert block["size"] == 1280 << 10, block
    """,
        PYTORCH_ALLOC_CONF="roundup_power2_divisions:4",
    )


def test_garbage_collection_threshold(device: torch.device) -> None:
    run_python(
        SETTINGS
        + """
    total = torch.accelerator.get_memory_info(0)[1]
    _C.set_memory_fraction(200 * MIB / total, 0)
    oldest, newest = empty(40 * MIB, device), empty(44 * MIB, device)
    addresses = oldest.data_ptr(), newest.data_ptr()
    del oldest
    del newest
    tensor = empty(48 * MIB, device)
    left = [s["address"] for s in segments(device)]
    assert addresses[0] not in left and addresses[1] in left
    assert stats(device)["num_alloc_retries"] == 0
    """,
        PYTORCH_ALLOC_CONF="garbage_collection_threshold:0.5",
    )


# ---- Streams that are late, and drivers that fail ----

LATE = (
    SETTINGS
    + """
    import threading, time
    from torch_outboard.drivers import torture

    source = torch.zeros(4 * MIB, dtype=torch.uint8).pin_memory()

    def busy(stream):
        # A copy on the stream starts 0.5 seconds late.
        torture.configure(delay_us=500_000)
        with stream:
            work = source.to(device, non_blocking=True)
        torture.configure(delay_us=0)
        return work
"""
)


def test_record_stream_keeps_memory_until_the_stream_is_done(device: torch.device) -> None:
    run_python(
        LATE
        + """
    side = torch.Stream(device)
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
    total = torch.accelerator.get_memory_info(0)[1]
    _C.set_memory_fraction((stats(device)["reserved_bytes.all.current"] + MIB) / total, 0)
    assert empty(64 * MIB, device).numel() == 64 * MIB
    assert torture.misuses() == 0
    """,
        OUTBOARD_TORTURE="count",
    )


def test_events_that_cannot_be_recorded(device: torch.device) -> None:
    run_python(
        LATE
        + """
    side = torch.Stream(device)
    for call in ("event_create", "event_record"):
        tensor = empty(4096, device)
        address = tensor.data_ptr()
        work = busy(side)
        tensor.record_stream(side)
        torture.fail(call)
        del tensor
        others = [empty(4096, device) for _ in range(20)]
        assert address not in [t.data_ptr() for t in others], "memory was reused too early"
        try:
            side.synchronize()
        except RuntimeError as error:
            assert call in str(error), error
        else:
            raise AssertionError("the failure of " + call + " was lost")
        del others
        torch.accelerator.synchronize()
        found = [empty(4096, device) for _ in range(30)]
        assert address in [t.data_ptr() for t in found]
        del found
    """,
        OUTBOARD_TORTURE="count",
    )


def test_memory_waits_for_its_own_stream_before_it_goes_back(device: torch.device) -> None:
    run_python(
        LATE
        + """
    side = torch.Stream(device)
    busy(side)  # the result is freed at once, the work on it is yet to come
    started = time.perf_counter()
    torch.accelerator.empty_cache()
    assert time.perf_counter() - started > 0.1
    torch.accelerator.synchronize()
    assert torture.misuses() == 0
    """,
        OUTBOARD_TORTURE="count",
    )


def test_private_pools_hold_back_events(device: torch.device) -> None:
    run_python(
        LATE
        + """
    side = torch.Stream(device)
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
    """,
        OUTBOARD_TORTURE="count",
    )


def test_no_driver_call_for_cached_blocks(device: torch.device) -> None:
    run_python(
        LATE
        + """
    for size in (512, 100_000, 3 * MIB, 30 * MIB):
        empty(size, device)
        before = torture.calls()
        _C._benchmark_allocator(size, 1000)
        assert torture.calls() == before
    """,
        OUTBOARD_TORTURE="count",
    )


def test_a_slow_driver_call_stops_no_other_thread(device: torch.device) -> None:
    run_python(
        LATE
        + """
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
    """,
        OUTBOARD_TORTURE="count",
    )


def test_driver_failures(device: torch.device) -> None:
    run_python(
        LATE
        + """
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
    try:
        empty(150 * MIB, device)
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("no memory error")
    torture.configure(limit=0)

    # What fails while memory is given back is raised at the next synchronization, once.
    empty(40 * MIB, device)
    torture.fail("deallocate")
    torch.accelerator.empty_cache()
    try:
        torch.accelerator.synchronize()
    except RuntimeError as error:
        assert "deallocate" in str(error), error
    else:
        raise AssertionError("the failure was lost")
    torch.accelerator.synchronize()
    assert kept.cpu().tolist() == list(range(100))
    """,
        OUTBOARD_TORTURE="count",
    )


def test_everything_goes_back_to_the_driver(device: torch.device) -> None:
    run_python(
        LATE
        + """
    import gc
    side = torch.Stream(device)
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
    """,
        OUTBOARD_TORTURE="count",
    )


# ---- Ends of processes ----


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_raises_and_its_deleters_do_nothing(device: torch.device) -> None:
    output = run_python(
        SETTINGS
        + """
    import os, sys, threading, time
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
                empty(100, device)
            except RuntimeError as error:
                assert "forked" in str(error), error
            else:
                os._exit(2)
            del tensor
            for call in (torch.accelerator.empty_cache, lambda: _C.memory_snapshot()):
                try:
                    call()
                except RuntimeError as error:
                    assert "forked" in str(error), error
                else:
                    os._exit(3)
            assert torch.ones(100).sum() == 100
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
    print("done")
    """
    )
    assert output.strip().endswith("done")


def test_tensors_that_outlive_the_driver(device: torch.device) -> None:
    run_python(
        SETTINGS
        + """
    import builtins
    builtins.kept = [empty(100, device), empty(30 * MIB, device)]
    _C.finalize_driver()
    del kept[0]
    try:
        empty(100, device)
    except RuntimeError as error:
        assert "exiting" in str(error), error
    else:
        raise AssertionError("memory after the driver ended")
    """
    )


def test_registration_starts_nothing(device: torch.device) -> None:
    run_python(
        """
        import torch
        import torch_outboard
        from torch_outboard import _C

        assert torch.accelerator.memory_stats(0) == {}
        torch.accelerator.empty_cache()
        assert _C.device_of_address(torch.empty(10).data_ptr()) == -1
        assert not torch.empty(10).is_pinned()
        assert not _C.driver_initialized()
        """
    )
