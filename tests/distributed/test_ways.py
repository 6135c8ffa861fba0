"""Who communicates: the driver, where it can, or Gloo, between copies that overlap with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks, try_ranks

pytestmark = [pytest.mark.by_turns(2), pytest.mark.separate]

# Every collective, of `elements` for each rank, against what it has to be.
EVERYTHING = """
def everything(elements):
    x = of_rank(rank, elements).to(device)
    parts = [of_rank(r, elements) for r in range(ranks)]
    y = x.clone()
    dist.all_reduce(y)
    assert torch.equal(y.cpu(), sum(parts))
    y = x.clone()
    dist.reduce(y, 1, dist.ReduceOp.MAX)
    assert torch.equal(y.cpu(), torch.stack(parts).amax(0) if rank == 1 else parts[rank])
    y = x.clone()
    dist.broadcast(y, 1)
    assert torch.equal(y.cpu(), parts[1])
    out = torch.empty(ranks * elements, device=device)
    dist.all_gather_into_tensor(out, x)
    assert torch.equal(out.cpu(), torch.cat(parts))
    outs = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(outs, x)
    assert torch.equal(torch.cat(outs).cpu(), torch.cat(parts))
    whole = torch.cat([of_rank(rank + 7 * r, elements) for r in range(ranks)]).to(device)
    dist.reduce_scatter_tensor(y, whole)
    assert torch.equal(y.cpu(), sum(of_rank(r + 7 * rank, elements) for r in range(ranks)))
    dist.reduce_scatter(y, list(whole.split(elements)), dist.ReduceOp.AVG)
    assert torch.equal(y.cpu(), sum(of_rank(r + 7 * rank, elements) for r in range(ranks)) / ranks)
    dist.all_to_all_single(out, whole)
    wanted = torch.cat([of_rank(r + 7 * rank, elements) for r in range(ranks)])
    assert torch.equal(out.cpu(), wanted)
    dist.all_to_all(outs, list(whole.split(elements)))
    assert torch.equal(torch.cat(outs).cpu(), wanted)
    dist.gather(x, outs if rank == 1 else None, 1)
    if rank == 1: assert torch.equal(torch.cat(outs).cpu(), torch.cat(parts))
    dist.scatter(y, list(whole.split(elements)) if rank == 1 else None, 1)
    assert torch.equal(y.cpu(), of_rank(1 + 7 * rank, elements))
"""

COLLECTIVES = {
    "ALLREDUCE", "REDUCE", "BROADCAST", "_ALLGATHER_BASE", "ALLGATHER", "_REDUCE_SCATTER_BASE",
    "REDUCE_SCATTER", "ALLTOALL_BASE", "ALLTOALL", "GATHER", "SCATTER",
}  # fmt: skip


@pytest.mark.torture
@pytest.mark.parametrize("setting", ["auto", pytest.param("gloo", marks=pytest.mark.slow)])
def test_everything_by_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    """Large ones, of which Gloo's go in pieces on separate memory, and small ones."""
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", setting)
    run_ranks(
        f"""
        begin(seconds=120)
        {EVERYTHING.strip().replace(chr(10), chr(10) + " " * 8)}
        from torch_outboard.distributed import ways, why_not_by_driver
        stream = torch.accelerator.current_stream()
        for elements in (1, 3_000_001): everything(elements)
        way = "gloo" if why_not_by_driver() else "driver"
        assert ways() == {{name: {{way: 2}} for name in {COLLECTIVES}}}, ways()
        if {setting!r} == "gloo":
            assert why_not_by_driver() == "OUTBOARD_COMMUNICATION=gloo"
        elif device.type == "host":
            assert way == "driver"
        else:
            assert "no communication of its own" in why_not_by_driver()
        assert torch.accelerator.current_stream() == stream
        # In the order of the group's work, also where pieces meet whole ones.
        x = torch.full((3_000_001,), 1.0, device=device)
        for _ in range(3): dist.all_reduce(x, async_op=True)
        work = dist.all_reduce(x[:3], async_op=True)
        work.wait()
        assert x.tolist() == [16.0] * 3 + [8.0] * 2_999_998
        dist.destroy_process_group()
        """,
        tmp_path,
    )


def test_what_the_driver_does_not_do_is_done_by_gloo(tmp_path: Path) -> None:
    run_ranks(
        """
        begin()
        from torch_outboard.distributed import ways, why_not_by_driver
        x = torch.ones(5, device=device)
        dist.all_reduce(x)
        y = torch.ones(5, dtype=torch.float16, device=device)
        dist.all_reduce(y)
        z = torch.full((5,), 6, device=device)
        dist.all_reduce(z, dist.ReduceOp.BAND)
        w = torch.full((5,), 1 + 2j, device=device)
        dist.all_reduce(w)
        assert x.tolist() == y.tolist() == [2.0] * 5 and z.tolist() == [6] * 5
        assert w.tolist() == [2 + 4j] * 5
        if not why_not_by_driver():
            assert ways()["ALLREDUCE"] == {"driver": 3, "gloo": 1}, ways()
        # Messages have tags, which drivers do not know.
        if rank == 0: dist.send(x, 1, tag=5)
        else: dist.recv(x, 0, tag=5)
        assert set(ways()["SEND" if rank == 0 else "RECV"]) == {"gloo"}
        dist.destroy_process_group()
        """,
        tmp_path,
    )


@pytest.mark.slow
def test_ranks_on_other_devices_than_the_group_began_with(tmp_path: Path) -> None:
    run_ranks(
        f"""
        if torch.accelerator.device_count() == 1: sys.exit()
        {EVERYTHING.strip().replace(chr(10), chr(10) + " " * 8)}
        begin()
        device = torch.device(device.type, rank)
        for elements in (3, 100_000): everything(elements)
        device = torch.device(device.type, 1 - rank)
        everything(5)
        dist.destroy_process_group()
        """,
        tmp_path,
    )


@pytest.mark.slow
def test_ranks_agree(tmp_path: Path) -> None:
    """One that is told to take Gloo, and then one that is told to take nothing else."""
    run_ranks(
        """
        import os
        from torch_outboard.distributed import ways, why_not_by_driver
        if rank == 1: os.environ["OUTBOARD_COMMUNICATION"] = "gloo"
        begin()
        x = torch.ones(5, device=device)
        dist.all_reduce(x)
        assert x.tolist() == [2.0] * 5
        assert ways() == {"ALLREDUCE": {"gloo": 1}}
        assert why_not_by_driver()
        dist.destroy_process_group()
        path += "again"
        os.environ["OUTBOARD_COMMUNICATION"] = ["driver", "gloo"][rank]
        try:
            begin()
        except RuntimeError as error:
            assert "OUTBOARD_COMMUNICATION=driver" in str(error) and rank == 0, error
        else:
            assert rank == 1
        """,
        tmp_path,
    )


@pytest.mark.slow
def test_a_setting_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", "nccl")
    run_ranks(
        """
        try:
            begin()
        except ValueError as error:
            assert "auto, driver or gloo" in str(error), error
        else:
            raise AssertionError("there is no such setting")
        """,
        tmp_path,
        ranks=1,
    )


def test_a_killed_rank_is_noticed_at_once(tmp_path: Path) -> None:
    """By the driver of the host, which sees that a process has ended; Gloo sees it, too."""
    results = try_ranks(
        """
        import os, signal, time
        begin(seconds=60)
        x = torch.ones(3, device=device)
        dist.all_reduce(x)
        x.cpu()
        if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
        start = time.monotonic()
        try:
            dist.all_reduce(x)
            x.cpu()
            torch.accelerator.synchronize()
        except RuntimeError as error:
            assert "ALLREDUCE (number 2 of group '0', rank 0 of 2" in str(error), error
        else:
            raise AssertionError("nobody answered, and nobody said so")
        assert time.monotonic() - start < 20
        assert not [name for name in os.listdir("/dev/shm") if "outboard" in name]
        """,
        tmp_path,
    )
    assert results[0].returncode == 0, results[0].stderr
