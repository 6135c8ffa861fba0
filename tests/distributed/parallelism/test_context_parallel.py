"""Context parallelism: attention over a sequence of which each rank has a part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks

pytestmark = pytest.mark.separate


def test_attention(tmp_path: Path) -> None:
    run_ranks(
        """
        from torch.distributed.tensor.experimental import context_parallel
        from torch.distributed.tensor.experimental._attention import context_parallel_unshard
        from torch.distributed.tensor import init_device_mesh
        from torch.nn.functional import scaled_dot_product_attention as attention
        use_own_device()
        begin()
        mesh = init_device_mesh(device.type, (ranks,))
        for causal in (False, True):
            torch.manual_seed(0)
            inputs = [torch.randn(2, 3, 16, 8) for _ in range(3)]
            wanted = [t.clone().requires_grad_() for t in inputs]
            result = attention(*wanted, is_causal=causal)
            result.square().sum().backward()
            ours = [t.to(device) for t in inputs]
            with context_parallel(mesh, buffers=tuple(ours), buffer_seq_dims=(2, 2, 2), no_restore_buffers=set(ours)):
                for t in ours: t.requires_grad_()
                found = attention(*ours, is_causal=causal)
                assert found.shape == (2, 3, 8, 8)
                found.square().sum().backward()
                grads = [t.grad for t in ours]
            whole = context_parallel_unshard(mesh, [found, *grads], [2] * 4)
            for mine, theirs in zip(whole, [result, *(t.grad for t in wanted)], strict=True):
                torch.testing.assert_close(mine.detach().cpu(), theirs.detach(), rtol=1e-3, atol=1e-4)
        dist.destroy_process_group()
        """,
        tmp_path,
    )
