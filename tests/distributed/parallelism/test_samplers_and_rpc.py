"""Samplers, data loaders and RPC between ranks."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.slow


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
