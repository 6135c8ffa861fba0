"""What feeds ranks, and remote calls, which carry CPU tensors."""

from __future__ import annotations

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.separate


@pytest.mark.slow
def test_distributed_sampler(run_ranks: Run) -> None:
    """Every sample is one rank's in each epoch, in another order; by workers and pinned memory."""
    run_ranks("""
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data.distributed import DistributedSampler
        use_own_device()
        begin()
        data = TensorDataset(torch.arange(20.0))
        sampler = DistributedSampler(data, shuffle=True, seed=3)
        loader = DataLoader(data, batch_size=5, sampler=sampler, pin_memory=True, num_workers=1,
                            multiprocessing_context="spawn" if rank else "forkserver")
        orders = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            mine = torch.cat([batch.to(device, non_blocking=True) for (batch,) in loader])
            every = torch.empty(20, device=device)
            dist.all_gather_into_tensor(every, mine)
            assert every.sort().values.tolist() == list(range(20))
            orders.append(every.tolist())
        assert orders[0] != orders[1]
    """)


@pytest.mark.slow
def test_remote_calls(run_ranks: Run) -> None:
    """A remote call takes and gives CPU tensors, and the callee uses its device in between."""
    run_ranks("""
        import os
        import torch.distributed.rpc as rpc
        use_own_device()
        def squared(tensor):
            here = tensor.to(device)
            return (here * here).cpu()
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}", rpc_timeout=60,
                                                  _transports=["uv"])
        rpc.init_rpc(f"rank{rank}", rank=rank, world_size=ranks, rpc_backend_options=options)
        if rank == 0:
            x = torch.arange(6.0)
            assert torch.equal(rpc.rpc_sync("rank1", squared, (x,)), x * x)
            assert torch.equal(rpc.rpc_async("rank1", squared, (x,)).wait(), x * x)
            remote = rpc.remote("rank1", torch.add, (x, x))
            assert torch.equal(remote.to_here(), x + x)
            # A tensor of the device is refused, and nobody crashes.
            refused(RuntimeError, lambda: rpc.rpc_sync("rank1", torch.neg, (x.to(device),)))
            assert torch.equal(rpc.rpc_sync("rank1", torch.neg, (x,)), -x)
        rpc.shutdown()
    """)
