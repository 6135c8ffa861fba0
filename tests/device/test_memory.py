"""`torch.<name>` and `torch.accelerator`: statistics of memory, its limits, pools and graphs."""

import gc

import pytest
import torch


def test_memory_statistics(device, device_module):
    for module in (device_module, torch.accelerator):
        module.synchronize()
        before = module.memory_allocated()
        module.reset_peak_memory_stats()
        assert module.max_memory_allocated() == before
        x = torch.empty(1 << 20, dtype=torch.uint8, device=device)
        assert module.memory_allocated(device) == before + (1 << 20)
        assert module.memory_reserved() >= module.memory_allocated()
        del x
        assert module.memory_allocated() == before
        assert module.max_memory_allocated() >= before + (1 << 20)
        assert module.max_memory_reserved() >= module.memory_reserved()
        assert module.memory_stats()["allocated_bytes.all.current"] == before
        module.reset_accumulated_memory_stats()
        assert module.memory_stats()["allocated_bytes.all.freed"] == 0
    nested = device_module.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == before


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


def test_memory_of_a_pool(device, device_module):
    device_module.empty_cache()
    before = device_module.memory_reserved()
    pool = device_module.MemPool()
    with device_module.use_mem_pool(pool):
        x = torch.ones(1 << 20, device=device)
    outside = torch.ones(1000, device=device)
    inside = [(s["address"], s["address"] + s["total_size"]) for s in pool.snapshot()]
    assert any(start <= x.data_ptr() < end for start, end in inside)
    assert not any(start <= outside.data_ptr() < end for start, end in inside)
    assert x.sum().item() == 1 << 20
    assert device_module.memory_reserved() > before
    del pool, x, outside
    device_module.empty_cache()
    assert device_module.memory_reserved() <= before


# ---- Leaks

WORK = (
    lambda device: [torch.empty(size, device=device) for size in (100, 500, 1000, 5000, 10000)],
    lambda device: torch.randn(500, device=device).cpu().to(device).clone(),
    lambda device: torch.randn(1000, device=device).view(10, 100)[2:5].reshape(20, 15),
    lambda device: torch.ones(1000, device=device).add_(1).mul_(2).div_(2).sub_(1),
    lambda device: torch.randn(100, device=device, requires_grad=True) + 1,
    lambda device: torch.empty(50 << 20, dtype=torch.uint8, device=device),
)


@pytest.mark.separate
def test_nothing_leaks(device, device_module):
    def memory(rounds):
        for _ in range(rounds):
            for work in WORK:
                work(device)
        device_module.synchronize()
        gc.collect()
        return device_module.memory_allocated(), device_module.memory_reserved()

    allocated, reserved = memory(1)
    now_allocated, now_reserved = memory(10)
    assert now_allocated == allocated
    # Two allocations may have been in flight at once in the first round and not in the second.
    assert now_reserved <= reserved + (50 << 20)


# ---- Graphs


@pytest.mark.separate
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
