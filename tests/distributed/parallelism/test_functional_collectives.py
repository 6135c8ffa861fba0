"""Functional collectives, eager and within compiled programs, with their gradients."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.slow


def test_eager_and_compiled(run_ranks: Run) -> None:
    run_ranks("""
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

        def of(location):
            return [t.cpu() for t in both(of_rank(rank, 4, 3).to(location))]
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
        for location in (device, "cpu"):
            x = of_rank(rank, 4, 3).to(location).requires_grad_()
            loss(x).backward()
            gradients.append(x.grad.cpu())
        torch.testing.assert_close(*gradients)
        compiled = torch.compile(loss, backend="aot_eager")
        x = of_rank(rank, 4, 3).to(device).requires_grad_()
        compiled(x).backward()
        torch.testing.assert_close(x.grad.cpu(), gradients[1])
    """)


def test_collectives_within_a_graph(run_ranks: Run) -> None:
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

        def inputs(location):
            return of_rank(rank, 4, 3).to(location), of_rank(7, 3, 5).to(location)

        compiled = torch.compile(step, fullgraph=True)
        for _ in range(2):
            for ours, theirs in zip(compiled(*inputs(device)), step(*inputs("cpu")), strict=True):
                torch.testing.assert_close(torch.as_tensor(ours.cpu()), torch.as_tensor(theirs))
        grads = []
        for call, location in ((torch.compile(with_derivative), device), (with_derivative, "cpu")):
            x = of_rank(rank, 4, 3).div(8).to(location).requires_grad_()
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
        """,
        timeout=500,
    )


def test_compiled_models_under_ddp(run_ranks: Run) -> None:
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
        """,
        timeout=500,
    )
