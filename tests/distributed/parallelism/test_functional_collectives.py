"""Functional collectives, eager and traced by `torch.compile`, with their gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks

pytestmark = pytest.mark.separate


@pytest.mark.slow
def test_eager_and_compiled(tmp_path: Path) -> None:
    run_ranks(
        """
        import torch.distributed._functional_collectives as F
        use_own_device()
        begin(backend=f"cpu:gloo,{device.type}:outboard")
        group = dist.group.WORLD

        def both(x):
            total = F.all_reduce(x * 2, "sum", group)
            gathered = F.all_gather_tensor(x, 0, group)
            scattered = F.reduce_scatter_tensor(x, "avg", 0, group)
            turned = F.all_to_all_single(x, None, None, group)
            first = F.broadcast(x, 0, group)
            several = F.all_reduce_coalesced([x, x + 1], "max", group)
            return (total + turned + first, gathered.sum(), scattered, *several)

        def of(place):
            return [t.cpu() for t in both(of_rank(rank, 4, 3).to(place))]
        wanted = of("cpu")
        for ours, theirs in zip(of(device), wanted, strict=True):
            torch.testing.assert_close(ours, theirs)
        compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
        for ours, theirs in zip(compiled(of_rank(rank, 4, 3).to(device)), wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(ours.cpu()), theirs)

        # Those with a derivative.
        def loss(x):
            return (F.all_gather_tensor_autograd(x, 0, group).square().sum()
                    + F.reduce_scatter_tensor_autograd(x, "sum", 0, group).square().sum()
                    + F.all_to_all_single_autograd(x, None, None, group).mul(rank + 1).sum())
        gradients = []
        for place in (device, "cpu"):
            x = of_rank(rank, 4, 3).to(place).requires_grad_()
            loss(x).backward()
            gradients.append(x.grad.cpu())
        torch.testing.assert_close(*gradients)
        compiled = torch.compile(loss, backend="aot_eager")
        x = of_rank(rank, 4, 3).to(device).requires_grad_()
        compiled(x).backward()
        torch.testing.assert_close(x.grad.cpu(), gradients[1])

        # A model whose steps are compiled beneath DistributedDataParallel.
        from tests.distributed.parallelism.networks import *
        reference, losses = alone(steps=4)
        model = torch.nn.parallel.DistributedDataParallel(network().to(device))
        compiled = torch.compile(model, backend="aot_eager")
        found = train(compiled, device, part_of(rank, ranks), steps=4)
        check_losses(mean_over_ranks(found, device), losses)
        dist.destroy_process_group()
        """,
        tmp_path,
    )
