"""The caching allocator: sizes, reuse, statistics, limits, pools and random histories."""

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.runtime.memory_checks import (
    LARGE_SEGMENT,
    SMALL_SEGMENT,
    check_segments,
    check_statistics,
    check_tensors,
    empty,
    forget_everything,
    segments,
    stats,
)
from tests.support import in_threads
from torch_outboard import _C

pytestmark = pytest.mark.usefixtures("memory_given_back")

MIB = 1 << 20


# ---- Sizes, reuse, splitting ----


def test_segment_sizes(device: torch.device) -> None:
    for size, segment in (
        (1, SMALL_SEGMENT),
        (MIB, SMALL_SEGMENT),
        (MIB + 1, LARGE_SEGMENT),
        (9 * MIB, LARGE_SEGMENT),
        (10 * MIB, 10 * MIB),
        (21 * MIB + 1, 22 * MIB),
    ):
        forget_everything()
        known = {s["address"] for s in segments(device)}
        with torch.Stream(device):
            tensor = empty(size, device)
        (new,) = (s for s in segments(device) if s["address"] not in known)
        assert new["total_size"] == segment
        assert new["address"] <= tensor.data_ptr() <= new["address"] + segment - size
        del tensor
    before = stats(device)
    assert empty(0, device).data_ptr() == 0
    assert stats(device) == before


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


def test_free_neighbours_merge(device: torch.device) -> None:
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (0, 2, 1, 3)):
        forget_everything()
        with torch.Stream(device):
            quarters = [empty(SMALL_SEGMENT // 4, device) for _ in range(4)]
            base = min(t.data_ptr() for t in quarters)
            for i in order:
                quarters[i] = None
                check_segments(device)
            halves = [empty(SMALL_SEGMENT // 2, device) for _ in range(2)]
        assert sorted(t.data_ptr() for t in halves) == [base, base + SMALL_SEGMENT // 2]
        del halves


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
    assert _C.testing.device_of_address(tensor.data_ptr()) == 1
    assert _C.testing.device_of_address(empty(100, device).data_ptr()) == 0
    assert _C.testing.device_of_address(torch.empty(100).data_ptr()) == -1


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


def test_out_of_memory_says_what_matters_and_leaves_all_intact(
    device: torch.device, shares_memory: bool
) -> None:
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
    with pytest.raises(torch.OutOfMemoryError):
        empty((1 << 62) - 1, device)
    if shares_memory:  # host kernels take what they need of the device's
        wide = torch.ones(1, device=device).expand(total // 4 + 1)
        for operator in (torch.neg, lambda x: torch.cummax(x, 0)):
            with pytest.raises(torch.OutOfMemoryError, match=f"{device} is out of memory"):
                operator(wide)
    torch.testing.assert_close(kept.cpu(), torch.arange(1000))
    assert empty(100, device).numel() == 100


def test_cached_memory_is_given_back_before_giving_up(device: torch.device) -> None:
    limit_to(64 * MIB, device)
    cached = [empty(12 * MIB, device) for _ in range(5)]
    with pytest.raises(torch.OutOfMemoryError, match="memory fraction"):
        empty(48 * MIB, device)
    del cached
    retries = stats(device)["num_alloc_retries"]
    assert empty(48 * MIB, device).numel() == 48 * MIB
    assert stats(device)["num_alloc_retries"] == retries + 1
    # Near the limit a segment is no larger than needed.
    forget_everything()
    limit_to(4 * MIB, device)
    assert empty(3 * MIB, device).numel() == 3 * MIB


# ---- Private pools ----


@contextmanager
def allocating_to(pool: object, device: torch.device) -> Iterator[None]:
    _C.begin_allocate_to_pool(device.index, pool)
    yield
    _C.end_allocate_to_pool(device.index, pool)


def test_private_pools(device: torch.device) -> None:
    pool, other = _C.create_memory_pool(), _C.create_memory_pool()
    assert pool != other
    cached = empty(4096, device).data_ptr()
    with allocating_to(pool, device):
        inside = empty(4096, device)
    assert inside.data_ptr() != cached
    assert empty(4096, device).data_ptr() == cached
    (segment,) = (s for s in segments(device) if s["segment_pool_id"] == pool)
    assert segment["address"] <= inside.data_ptr() < segment["address"] + segment["total_size"]
    assert [s["address"] for s in _C.memory_snapshot(pool)] == [segment["address"]]
    address = inside.data_ptr()
    del inside
    torch.accelerator.empty_cache()
    assert _C.memory_snapshot(pool), "a held pool keeps its memory"

    with allocating_to(pool, device):
        assert empty(4096, device).data_ptr() == address
        tensor = torch.full((1000,), 7, device=device)
    _C.release_memory_pool(device.index, pool)
    _C.release_memory_pool(device.index, pool)
    torch.accelerator.empty_cache()
    torch.testing.assert_close(tensor.cpu(), torch.full((1000,), 7))
    del tensor
    torch.accelerator.empty_cache()
    assert not _C.memory_snapshot(pool)


def test_use_of_private_pools(device: torch.device) -> None:
    """They serve the thread that began; what makes no sense raises."""
    pool = _C.create_memory_pool()
    for wrong, words in (
        (lambda: _C.end_allocate_to_pool(device.index, pool), "begin before you end"),
        (lambda: _C.release_memory_pool(device.index, pool), "not held"),
        (lambda: _C.begin_allocate_to_pool(device.index, (0, 0)), "default"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=words):
            wrong()
    with allocating_to(pool, device):
        with pytest.raises(RuntimeError, match="in use already"):
            _C.begin_allocate_to_pool(device.index, pool)
        in_threads(lambda _: empty(4096, device), 1)
        assert not _C.memory_snapshot(pool)
    _C.release_memory_pool(device.index, pool)


# ---- Random histories ----


@pytest.mark.faults
@pytest.mark.by_turns(3)
@pytest.mark.parametrize("seed", range(3))
def test_random_history(device: torch.device, seed: int) -> None:
    rng = random.Random(seed)
    streams = [torch.accelerator.current_stream(), torch.Stream(device), torch.Stream(device)]
    live: list[torch.Tensor] = []
    for step in range(600):
        action = rng.random()
        if action < 0.52:
            with rng.choice(streams):
                live.append(empty(int(2 ** rng.uniform(0, 24)), device))
        elif action < 0.97 and live:
            tensor = live.pop(rng.randrange(len(live)))
            if rng.random() < 0.3:
                tensor.record_stream(rng.choice(streams))
            del tensor
        elif action < 0.985:
            torch.accelerator.empty_cache()
        else:
            torch.accelerator.reset_peak_memory_stats(device.index)
        if step % 20 == 0:
            check_segments(device)
            check_statistics(device)
            check_tensors(live, device)
    live.clear()
    forget_everything()
    check_statistics(device)


@pytest.mark.faults
def test_many_threads(device: torch.device) -> None:
    def work(seed: int) -> None:
        rng = random.Random(seed)
        live: list[tuple[torch.Tensor, int]] = []
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

    in_threads(work, 6)
    gc.collect()
    check_segments(device)
    check_statistics(device)
