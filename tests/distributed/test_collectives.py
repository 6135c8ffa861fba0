"""Every collective of torch.distributed on the device, against what it has to be."""

import pytest

from tests.distributed.ranks import EVERYTHING, Run

PROGRAM = EVERYTHING


def test_reductions(run_ranks: Run) -> None:
    run_ranks("""
        begin()
        O = dist.ReduceOp
        real = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
        whole = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
        cases = [(dtype, op) for dtype in real + whole for op in (O.SUM, O.PRODUCT, O.MIN, O.MAX)]
        cases += [(dtype, op) for dtype in whole for op in (O.BAND, O.BOR, O.BXOR)]
        every = (O.SUM, O.PRODUCT, O.MIN, O.MAX, O.BAND, O.BOR, O.BXOR)
        cases += [(torch.bool, op) for op in every]
        cases += [(dtype, O.AVG) for dtype in (*real, torch.int32, torch.complex64)]
        cases += [(dtype, O.SUM) for dtype in (torch.complex64, torch.complex128, torch.uint16)]
        cases += [(torch.float32, dist._make_nccl_premul_sum(0.5))]
        def expected(dtype, op, size):
            parts = torch.stack([of_rank(r, *size, dtype=dtype) for r in range(ranks)])
            wide = parts.to(torch.complex128 if dtype.is_complex else
                            torch.float64 if dtype.is_floating_point else torch.int64)
            if op == O.SUM: found = wide.sum(0)
            elif op == O.AVG:
                found = wide.sum(0) / ranks
                if not dtype.is_floating_point and not dtype.is_complex: found = found.trunc()
            elif op == O.PRODUCT: found = wide.prod(0)
            elif op == O.MIN: found = wide.amin(0)
            elif op == O.MAX: found = wide.amax(0)
            elif op == O.BAND: found = parts[0] & parts[1]
            elif op == O.BOR: found = parts[0] | parts[1]
            elif op == O.BXOR: found = parts[0] ^ parts[1]
            else: found = 0.5 * wide.sum(0)
            return found.to(dtype)
        for dtype, op in cases:
            for size in ((3, 5), (), (0,)):
                wanted = expected(dtype, op, size)
                x = of_rank(rank, *size, dtype=dtype).to(device)
                dist.all_reduce(x, op)
                assert torch.equal(x.cpu(), wanted), (dtype, op, size, x.cpu(), wanted)
            wanted = expected(dtype, op, (4, 3))
            strided = torch.empty(3, 8, dtype=dtype).to(device)[:, ::2].t()
            strided.copy_(of_rank(rank, 4, 3, dtype=dtype))
            dist.all_reduce(strided, op)
            assert torch.equal(strided.cpu(), wanted), (dtype, op)
            mine = of_rank(rank, 4, 3, dtype=dtype).to(device)
            dist.reduce(mine, 1, op)
            kept = wanted if rank == 1 else of_rank(rank, 4, 3, dtype=dtype)
            assert torch.equal(mine.cpu(), kept), (dtype, op)
            out = torch.empty(2, 3, dtype=dtype, device=device)
            dist.reduce_scatter_tensor(out, of_rank(rank, 4, 3, dtype=dtype).to(device), op)
            assert torch.equal(out.cpu(), wanted[2 * rank : 2 * rank + 2]), (dtype, op)
            dist.reduce_scatter(out, list(of_rank(rank, 4, 3, dtype=dtype).to(device).split(2)), op)
            assert torch.equal(out.cpu(), wanted[2 * rank : 2 * rank + 2]), (dtype, op)
        for wrong, op in ((torch.complex64, O.MAX), (torch.float32, O.BXOR), (torch.bool, O.AVG)):
            x = torch.ones(2, dtype=wrong, device=device)
            refused((TypeError, ValueError), lambda: dist.all_reduce(x, op))
    """)


@pytest.mark.separate
def test_what_moves(run_ranks: Run) -> None:
    run_ranks("""
        begin()
        dtypes = (torch.float32, torch.bfloat16, torch.bool, torch.int16, torch.complex64,
                  torch.float8_e4m3fn, torch.int64)
        for dtype in dtypes:
            everything(5, dtype, reduces=False)
            all_of = [of_rank(r, 2, 3, dtype=dtype) for r in range(ranks)]
            tensor = all_of[rank].to(device)
            sizes = [1, 2]  # of the columns that each rank gets
            outs = [torch.empty(2, sizes[rank], dtype=dtype, device=device) for _ in range(ranks)]
            dist.all_to_all(outs, [p.contiguous() for p in tensor.split(sizes, 1)])
            for out, given in zip(outs, all_of): same(out, given.split(sizes, 1)[rank])
            if rank == 0: dist.send(tensor, 1, tag=3)
            else:
                assert dist.recv(tensor, 0, tag=3) == 0
                same(tensor, all_of[0])
        # Of any rank, and both directions at once.
        if rank == 0:
            x = torch.empty(3, device=device)
            assert dist.recv(x) == 1
            assert x.tolist() == [7.0] * 3
        else:
            dist.send(torch.full((3,), 7.0, device=device), 0)
        out = torch.empty(1000, device=device)
        given = torch.full((1000,), float(rank), device=device)
        for work in dist.batch_isend_irecv([
            dist.P2POp(dist.isend, given, 1 - rank), dist.P2POp(dist.irecv, out, 1 - rank)
        ]):
            work.wait()
        assert bool((out == 1 - rank).all())
        found = [None] * ranks
        dist.all_gather_object(found, {"rank": rank})
        assert found == [{"rank": 0}, {"rank": 1}]
        with dist._coalescing_manager(device=device):
            xs = [torch.full((n,), float(rank + n), device=device) for n in (2, 5)]
            for x in xs: dist.all_reduce(x)
        assert [x.tolist() for x in xs] == [[5.0] * 2, [11.0] * 5]
        dist.barrier()
    """)


def test_groups_and_backends(run_ranks: Run) -> None:
    """Three ranks, groups of two of them, CPU beside the device."""
    run_ranks(
        """
        begin(backend=f"cpu:gloo,{device.type}:outboard")
        groups = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
        for members, group in zip(((0, 1), (1, 2), (0, 2)), groups):
            if rank in members:
                for location in (device, "cpu"):
                    x = torch.full((4,), 10.0 ** rank, device=location)
                    dist.all_reduce(x, group=group)
                    assert x.tolist() == [10.0 ** members[0] + 10.0 ** members[1]] * 4
        dist.barrier()
        dist.destroy_process_group()
        # And again, under another name.
        path += "again"
        begin()
        x = torch.ones(2, device=device)
        dist.all_reduce(x)
        assert x.tolist() == [3.0, 3.0]
        """,
        ranks=3,
    )


@pytest.mark.slow
def test_all_reduce_of_sparse_tensors(run_ranks: Run) -> None:
    run_ranks(
        """
        begin()
        def sparse(r, location):
            # The ranks have other numbers of elements, and share some.
            indices = torch.arange(r + 2).repeat(2)[None]
            values = torch.arange(2.0 * (r + 2) * 3).reshape(-1, 3) + r
            return torch.sparse_coo_tensor(indices, values, (5, 3)).to(location)
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
        rows = torch.eye(3).to_sparse_csr().to(device)
        refused((ValueError, RuntimeError, NotImplementedError), lambda: dist.all_reduce(rows))
    """
    )


@pytest.mark.slow
def test_split_group_and_meshes_of_two_dimensions(run_ranks: Run) -> None:
    run_ranks(
        """
        begin(backend=f"cpu:gloo,{device.type}:outboard", device_id=device)
        group = dist.split_group(split_ranks=[[0, 2], [1]])
        members = [0, 2] if rank != 1 else [1]
        for location in (device, "cpu"):
            x = torch.full((4,), 10.0 ** rank, device=location)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [sum(10.0 ** r for r in members)] * 4
        again = dist.split_group(split_ranks=[[0, 1]])
        assert (again is None) == (rank == 2)
        if again is not None:
            x = torch.full((4,), 10.0 ** rank, device=device)
            dist.all_reduce(x, group=again)
            assert x.tolist() == [11.0] * 4
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh(device.type, (3, 1), mesh_dim_names=("replicate", "shard"))
        x = torch.ones(3, device=device)
        dist.all_reduce(x, group=mesh.get_group("replicate"))
        assert x.tolist() == [3.0] * 3
        dist.all_reduce(x, group=mesh.get_group("shard"))
        assert x.tolist() == [3.0] * 3
        """,
        ranks=3,
    )
