"""Sequences that are spread over ranks, which send keys and values around: context parallelism."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.slow


def test_context_parallel(run_ranks: Run) -> None:
    """Losses and gradients of whole sequences on one process, by both methods of rotation."""
    run_ranks("""
        from torch import nn
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.experimental import context_parallel
        from torch.distributed.tensor.experimental._attention import (
            _cp_options, context_parallel_unshard, set_rotate_method)
        from tests.distributed.parallelism.networks import *
        use_own_device()
        begin()
        mesh = init_device_mesh(device.type, (ranks,))

        class Attention(nn.Module):
            # Over (batch, sequence, 16).
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
            def forward(self, x, causal):
                q, k, v = (f(x).unflatten(-1, (4, 4)).transpose(1, 2)
                           for f in (self.q, self.k, self.v))
                h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                return x + self.o(h.transpose(1, 2).flatten(2))

        def data(location):
            generator = torch.Generator().manual_seed(3)
            return [torch.randn(2, 16, 16, generator=generator).to(location) for _ in range(2)]

        for causal in (False, True):
            # For causal attention alone: each rank has a part of the begin and one of the end.
            _cp_options.enable_load_balance = causal
            reference = Attention()
            theirs = torch.optim.SGD(reference.parameters(), lr=0.5)
            losses = []
            for _ in range(4):
                x, y = data("cpu")
                theirs.zero_grad()
                output = reference(x, causal)
                loss = squares(output, y)
                loss.backward()
                theirs.step()
                losses.append(loss.item())
            for method in ("allgather", "alltoall"):
                set_rotate_method(method)
                model = Attention().to(device)
                ours = torch.optim.SGD(model.parameters(), lr=0.5)
                found = []
                for _ in range(4):
                    x, y = data(device)
                    ours.zero_grad()
                    with context_parallel(mesh, buffers=[x, y], buffer_seq_dims=[1, 1]):
                        assert x.shape == (2, 16 // ranks, 16)
                        part = model(x, causal)
                        loss = squares(part, y)
                        loss.backward()
                    for p in model.parameters(): dist.all_reduce(p.grad, dist.ReduceOp.AVG)
                    ours.step()
                    found.append(loss.item())
                check_losses(mean_over_ranks(found, device), losses)
                check_parameters(model.parameters(), reference.parameters())
                (whole,) = context_parallel_unshard(mesh, [part.detach()], [1])
                check_parameters([whole], [output])
    """)


def test_attention_of_distributed_tensors(run_ranks: Run) -> None:
    """Heads and batches on ranks, with derivatives; CPU has no rule for its attention kernel."""
    run_ranks("""
        from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        from tests.distributed.parallelism.networks import *
        use_own_device()
        begin()
        mesh = init_device_mesh(device.type, (ranks,))
        attend = torch.nn.functional.scaled_dot_product_attention
        generator = torch.Generator().manual_seed(0)
        given = [torch.randn(2, 4, 6, 8, generator=generator) for _ in range(3)]
        for causal in (False, True):
            wanted = [t.clone().requires_grad_() for t in given]
            attend(*wanted, is_causal=causal).square().sum().backward()
            for dim in (0, 1):
                ours = [distribute_tensor(t.to(device), mesh, [Shard(dim)]).requires_grad_()
                        for t in given]
                attend(*ours, is_causal=causal).square().sum().backward()
                assert ours[0].grad.placements == (Shard(dim),)
                check_parameters([t.grad for t in ours], [t.grad for t in wanted])
    """)
