"""`torch.<name>`: statistics of memory, its limits, pools and graphs."""

from __future__ import annotations

import gc

import pytest
import torch

pytestmark = [pytest.mark.separate, pytest.mark.torture]


def test_memory_statistics(device, device_module):
    device_module.synchronize()
    before = device_module.memory_allocated()
    device_module.reset_peak_memory_stats()
    x = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    assert device_module.memory_allocated() == before + (1 << 20)
    assert device_module.memory_allocated(device) == device_module.memory_allocated()
    assert device_module.memory_reserved() >= device_module.memory_allocated()
    del x
    assert device_module.memory_allocated() == before
    assert device_module.max_memory_allocated() >= before + (1 << 20)
    assert device_module.max_memory_reserved() >= device_module.memory_reserved()
    stats = device_module.memory_stats()
    assert stats["allocated_bytes.all.current"] == before
    nested = device_module.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == before
    device_module.reset_accumulated_memory_stats()
    assert device_module.memory_stats()["allocated_bytes.all.freed"] == 0


def test_memory_of_the_accelerator(device):
    accelerator = torch.accelerator
    accelerator.synchronize()
    before = accelerator.memory_allocated()
    accelerator.reset_peak_memory_stats()
    x = torch.empty(1 << 21, dtype=torch.uint8, device=device)
    assert accelerator.memory_allocated(device) == before + (1 << 21)
    assert accelerator.memory_reserved() >= 1 << 21
    del x
    assert accelerator.max_memory_allocated() >= before + (1 << 21)
    assert accelerator.max_memory_reserved() >= accelerator.memory_reserved()
    accelerator.reset_accumulated_memory_stats()
    stats = accelerator.memory_stats()
    assert stats["allocated_bytes.all.freed"] == 0
    assert "num_ooms" in stats
    free, total = accelerator.get_memory_info()
    assert 0 < free <= total
    accelerator.empty_cache()
    if hasattr(accelerator, "empty_host_cache"):
        accelerator.empty_host_cache()


def test_pinned_memory_statistics(device, device_module):
    device_module.init()
    gc.collect()
    device_module.synchronize()
    device_module.reset_accumulated_host_memory_stats()
    before = device_module.host_memory_stats()
    kept = torch.ones(1000).pin_memory()
    stats = device_module.host_memory_stats()
    assert stats["active_requests.allocated"] == 1
    assert stats["active_bytes.allocated"] >= kept.nbytes > before["active_bytes.allocated"]
    device_module.reset_peak_host_memory_stats()
    stats = device_module.host_memory_stats()
    assert stats["active_bytes.peak"] == stats["active_bytes.current"]
    device_module.ipc_collect()


def test_memory_info_and_summary(device, device_module):
    free, total = device_module.mem_get_info()
    assert 0 < free <= total
    assert 0 <= device_module.device_memory_used() <= total
    assert "Allocated memory" in device_module.memory_summary()
    assert "large pool" in device_module.memory_summary(device)
    assert "large pool" not in device_module.memory_summary(abbreviated=True)
    kept = [torch.ones(3, device=device) for _ in range(5)]
    lines = device_module.memory_summary().splitlines()
    row = next(line for line in lines if line.startswith("Allocations"))
    current, peak, allocated, _freed = map(int, row.split()[1:])
    assert len(kept) <= current <= peak
    assert len(kept) <= allocated
    assert current == device_module.memory_stats()["allocation.all.current"]


def test_snapshot_shows_blocks(device, device_module):
    x = torch.empty(12345, dtype=torch.uint8, device=device)
    segments = device_module.memory_snapshot()
    assert any(
        s["address"] <= x.data_ptr() < s["address"] + s["total_size"] and s["blocks"]
        for s in segments
    )


def test_memory_fraction(device, device_module):
    _, total = device_module.mem_get_info()
    fraction = (device_module.memory_reserved() + (8 << 20)) / total
    device_module.set_per_process_memory_fraction(fraction)
    try:
        assert device_module.get_per_process_memory_fraction() == pytest.approx(fraction)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 30, dtype=torch.uint8, device=device)
    finally:
        device_module.set_per_process_memory_fraction(1.0)
    assert torch.ones(3, device=device).sum().item() == 3
    for wrong in (1, 0, True, None, "half"):
        with pytest.raises(TypeError, match="Invalid type for fraction argument, must be `float`"):
            device_module.set_per_process_memory_fraction(wrong)
    for wrong in (1.5, -0.1, float("nan")):
        with pytest.raises(ValueError, match="Allowed range: 0~1"):
            device_module.set_per_process_memory_fraction(wrong)


def test_pool_has_its_own_memory(device, device_module):
    pool = device_module.MemPool()
    with device_module.use_mem_pool(pool):
        x = torch.ones(1000, device=device)
    outside = torch.ones(1000, device=device)
    segments = pool.snapshot()
    inside = [(s["address"], s["address"] + s["total_size"]) for s in segments]
    assert any(start <= x.data_ptr() < end for start, end in inside)
    assert not any(start <= outside.data_ptr() < end for start, end in inside)
    assert x.sum().item() == 1000


def test_memory_of_a_pool_goes_back_when_all_is_gone(device, device_module):
    device_module.empty_cache()
    before = device_module.memory_reserved()
    pool = device_module.MemPool()
    with device_module.use_mem_pool(pool):
        x = torch.ones(1 << 20, device=device)
    assert device_module.memory_reserved() > before
    del pool, x
    device_module.empty_cache()
    assert device_module.memory_reserved() <= before


def test_graphs_under_the_names_of_cuda(device, device_module):
    if not hasattr(torch.accelerator, "Graph"):
        with pytest.raises(NotImplementedError, match="no graphs for accelerators"):
            device_module.CUDAGraph()
        return
    source, target = torch.arange(100.0).to(device), torch.zeros(100).to(device)
    pool = device_module.graph_pool_handle()
    graph = device_module.CUDAGraph()
    with device_module.graph(graph, pool=pool):
        assert device_module.is_current_stream_capturing()
        target.copy_(source)
    assert not device_module.is_current_stream_capturing()
    assert graph.pool() == pool
    assert target.cpu().sum().item() == 0
    graph.replay()
    device_module.synchronize()
    assert target.cpu().sum().item() == 4950
    with pytest.raises(KeyError), device_module.graph(device_module.Graph()):
        raise KeyError
    assert not device_module.is_current_stream_capturing()
