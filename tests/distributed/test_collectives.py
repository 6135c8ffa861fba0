"""Every collective of torch.distributed on the device, against what it has to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks

pytestmark = [pytest.mark.by_turns(2), pytest.mark.separate, pytest.mark.torture]


def test_reductions(tmp_path: Path) -> None:
    run_ranks(
        """
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
            try:
                dist.all_reduce(torch.ones(2, dtype=wrong, device=device), op)
            except (TypeError, ValueError):
                pass
            else:
                raise AssertionError((wrong, op))
        dist.destroy_process_group()
        """,
        tmp_path,
    )


def test_what_moves(tmp_path: Path) -> None:
    run_ranks(
        """
        begin()
        def bits(tensor):
            tensor = tensor.cpu().contiguous().reshape(-1)
            return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).view(torch.uint8)
        def same(ours, theirs):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            assert torch.equal(bits(ours), bits(theirs)), (ours.cpu(), theirs)
        dtypes = (torch.float32, torch.bfloat16, torch.bool, torch.int16, torch.complex64,
                  torch.float8_e4m3fn, torch.int64)
        for dtype in dtypes:
            for size in ((2, 3), (4,)):
                all_of = [of_rank(r, *size, dtype=dtype) for r in range(ranks)]
                mine = all_of[rank].to(device)
                x = mine.clone()
                dist.broadcast(x, 1)
                same(x, all_of[1])
                outs = [torch.empty_like(mine) for _ in range(ranks)]
                dist.all_gather(outs, mine)
                for out, wanted in zip(outs, all_of): same(out, wanted)
                whole = torch.empty(ranks * size[0], *size[1:], dtype=dtype, device=device)
                dist.all_gather_into_tensor(whole, mine)
                same(whole, torch.cat(all_of))
                outs = [torch.empty_like(mine) for _ in range(ranks)] if rank == 0 else None
                dist.gather(mine, outs, 0)
                if rank == 0:
                    for out, wanted in zip(outs, all_of): same(out, wanted)
                given = [part.to(device) for part in all_of] if rank == 1 else None
                out = torch.empty_like(mine)
                dist.scatter(out, given, 1)
                same(out, all_of[rank])
                out = torch.empty_like(mine)
                dist.all_to_all_single(out, mine)
                half = size[0] // 2
                same(out, torch.cat([p[half * rank : half * rank + half] for p in all_of]))
                parts = [p.contiguous() for p in mine.split([1, size[0] - 1])]
                sizes = [1, size[0] - 1]
                outs = [torch.empty(sizes[rank], *size[1:], dtype=dtype, device=device)
                        for _ in range(ranks)]
                dist.all_to_all(outs, parts)
                for r in range(ranks): same(outs[r], all_of[r].split(sizes)[rank])
                tensor = mine.clone() if rank == 0 else torch.empty_like(mine)
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
        dist.destroy_process_group()
        """,
        tmp_path,
    )


def test_groups_and_backends(tmp_path: Path) -> None:
    """Three ranks, groups of two of them, CPU beside the device."""
    run_ranks(
        """
        begin(backend=f"cpu:gloo,{device.type}:outboard")
        groups = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
        for members, group in zip(((0, 1), (1, 2), (0, 2)), groups):
            if rank in members:
                for place in (device, "cpu"):
                    x = torch.full((4,), 10.0 ** rank, device=place)
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
        dist.destroy_process_group()
        """,
        tmp_path,
        ranks=3,
    )
