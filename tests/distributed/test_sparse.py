"""Sums of sparse tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks

pytestmark = pytest.mark.separate


@pytest.mark.slow
def test_all_reduce_of_sparse_tensors(tmp_path: Path) -> None:
    run_ranks(
        """
        begin()
        def sparse(r, place):
            # The ranks have other numbers of elements, and share some.
            indices = torch.arange(r + 2).repeat(2)[None]
            values = torch.arange(2.0 * (r + 2) * 3).reshape(-1, 3) + r
            return torch.sparse_coo_tensor(indices, values, (5, 3)).to(place)
        wanted = sum(sparse(r, "cpu").to_dense() for r in range(ranks))
        x = sparse(rank, device)
        assert x.is_sparse and x.device == device
        dist.all_reduce(x)
        assert torch.equal(x.to_dense().cpu(), wanted)
        x = sparse(rank, device)
        work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
        work.wait()
        assert torch.equal(x.to_dense().cpu(), wanted / ranks)
        # Gradients of an embedding, in the order of other work.
        y = torch.ones(1000, device=device)
        dist.all_reduce(y, async_op=True)
        x = sparse(rank, device)
        dist.all_reduce(x)
        assert torch.equal(x.to_dense().cpu(), wanted) and y.tolist() == [2.0] * 1000
        try:
            dist.all_reduce(torch.eye(3, device="cpu").to_sparse_csr().to(device))
        except (ValueError, RuntimeError, NotImplementedError) as error:
            print(error)
        else:
            raise AssertionError("only COO is reduced")
        dist.destroy_process_group()
        """,
        tmp_path,
    )
