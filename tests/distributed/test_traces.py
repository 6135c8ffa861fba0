"""Profiles show when collectives ran, and on which stream."""

import pytest

from tests.distributed.ranks import Run


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["auto", "gloo"])
def test_collectives_in_a_profile(
    run_ranks: Run, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", setting)
    run_ranks("""
        from torch.profiler import profile
        from benchmarks.overlap import common, hidden_share, merged, total
        begin(backend=f"cpu:gloo,{device.type}:outboard")
        x = torch.ones(1000, device=device)
        dist.all_reduce(x)
        with profile() as found:
            for _ in range(3): dist.all_reduce(x)
            torch.accelerator.synchronize()
        events = [e for e in found.profiler.kineto_results.events() if e.name() == "ALLREDUCE"]
        assert len(events) == 3, [e.name() for e in found.profiler.kineto_results.events()]
        assert all(e.device_type() != torch.autograd.DeviceType.CPU for e in events)
        current = torch.accelerator.current_stream().stream_id
        assert all(e.device_resource_id() != current for e in events)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(9, 9).to(device))
        def step(): model(torch.ones(2, 9, device=device)).sum().backward()
        assert 0 <= hidden_share(step, on_device=True) <= 1
        spans = merged([(5, 8), (1, 3), (2, 4)])
        assert spans == [(1, 4), (5, 8)] and total(spans) == 6
        assert common(spans, [(3, 6), (7, 9)]) == [(3, 4), (5, 6), (7, 8)]
    """)
