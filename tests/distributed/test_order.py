"""Collectives are in the order of streams, and the host does not wait for them."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.faults


def test_streams(run_ranks: Run) -> None:
    run_ranks("""
        import time
        begin()
        source = torch.ones(1 << 18).pin_memory()
        side = torch.Stream(device)
        for step in range(5):
            # Copies are late under fault injection; what is reduced is what they bring.
            x = torch.zeros(1 << 18, device=device)
            x.copy_(source, non_blocking=True)
            work = dist.all_reduce(x, async_op=True)
            with side:
                work.wait()
                y = x.to("cpu", non_blocking=True)
            side.synchronize()
            assert bool((y == ranks).all()), step
            future = work.get_future()
            future.wait()
            assert future.value()[0].data_ptr() == x.data_ptr()
            assert work.is_completed() and work.is_success()
        # One rank is late: the other goes on, and only who looks waits.
        if rank == 1: time.sleep(1.0)
        x = torch.full((8,), float(rank + 1), device=device)
        start = time.monotonic()
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        enqueued = time.monotonic() - start
        assert x.tolist() == [3.0] * 8
        if rank == 0:
            assert enqueued < 0.5, enqueued
            assert time.monotonic() - start > 0.5
        # Memory given back before the collective is done is not used again before.
        if rank == 1: time.sleep(0.5)
        results = [torch.full((1000,), float(i + rank), device=device) for i in range(20)]
        works = [dist.all_reduce(r, async_op=True) for r in results]
        kept = results[-1]
        del results
        others = [torch.full((1000,), -1.0, device=device) for _ in range(40)]
        for work in works: work.wait()
        assert bool((kept == 19 + 20).all())
        assert all(bool((o == -1).all()) for o in others)
    """)
