"""What torch.compile makes of programs that communicate, by the device's part of Inductor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks

pytestmark = [pytest.mark.separate, pytest.mark.slow]


def test_collectives_within_a_graph(tmp_path: Path) -> None:
    """In one graph with what is computed before and after, and with derivatives."""
    run_ranks(
        """
        import torch.distributed._functional_collectives as F
        begin(backend=f"cpu:gloo,{device.type}:outboard")
        group = dist.group.WORLD

        def step(x, w):
            h = torch.relu(x @ w)
            total = F.all_reduce(h, "sum", group)
            return (total * 2 + h).sum(1), F.all_gather_tensor(h, 0, group).mean(0)

        def with_derivative(x):
            return F.reduce_scatter_tensor_autograd(x * x, "sum", 0, group).exp().sum()

        def inputs(place):
            return of_rank(rank, 4, 3).to(place), of_rank(7, 3, 5).to(place)

        compiled = torch.compile(step, fullgraph=True)
        for _ in range(2):
            for ours, theirs in zip(compiled(*inputs(device)), step(*inputs("cpu")), strict=True):
                torch.testing.assert_close(torch.as_tensor(ours.cpu()), torch.as_tensor(theirs))
        grads = []
        for call, place in ((torch.compile(with_derivative), device), (with_derivative, "cpu")):
            x = of_rank(rank, 4, 3).div(8).to(place).requires_grad_()
            call(x).backward()
            grads.append(x.grad.cpu())
        torch.testing.assert_close(*grads)
        # dist.all_reduce itself, in place.
        def in_place(x):
            y = x + 1
            dist.all_reduce(y)
            return y * 3
        found = torch.compile(in_place)(torch.ones(5, device=device))
        assert found.tolist() == [3.0 * 2 * ranks] * 5
        dist.destroy_process_group()
        """,
        tmp_path,
        timeout=500,
    )


def test_compiled_models_under_ddp(tmp_path: Path) -> None:
    """Compiled above DistributedDataParallel, and beneath it, against one process."""
    run_ranks(
        """
        from tests.distributed.parallelism.networks import *
        begin(backend=f"cpu:gloo,{device.type}:outboard")
        parallel = torch.nn.parallel.DistributedDataParallel
        reference, losses = alone(steps=4)
        models = (torch.compile(parallel(network().to(device))),
                  parallel(torch.compile(network().to(device))))
        for model in models:
            found = train(model, device, part_of(rank, ranks), steps=4)
            check_losses(mean_over_ranks(found, device), losses)
            check_parameters(model.parameters(), reference.parameters())
        dist.destroy_process_group()
        """,
        tmp_path,
        timeout=500,
    )
