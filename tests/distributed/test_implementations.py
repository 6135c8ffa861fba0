"""Communication by the driver, where it can, or by Gloo between copies that overlap with it."""

import pytest

from tests.distributed.ranks import EVERYTHING, Run

PROGRAM = EVERYTHING
COLLECTIVES = {
    "ALLREDUCE", "REDUCE", "BROADCAST", "_ALLGATHER_BASE", "ALLGATHER", "_REDUCE_SCATTER_BASE",
    "REDUCE_SCATTER", "ALLTOALL_BASE", "ALLTOALL", "GATHER", "SCATTER",
}  # fmt: skip


@pytest.mark.by_turns(2)
@pytest.mark.separate
@pytest.mark.faults
@pytest.mark.parametrize("setting", ["auto", pytest.param("gloo", marks=pytest.mark.slow)])
def test_everything_by_each(run_ranks: Run, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    """Large calls, by Gloo in pieces on separate memory, and small ones."""
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", setting)
    run_ranks(f"""
        begin(seconds=120)
        from torch_outboard.distributed import operation_counts as counts, why_not_by_driver
        stream = torch.accelerator.current_stream()
        for elements in (1, 2_100_001): everything(elements)
        way = "gloo" if why_not_by_driver() else "driver"
        assert counts() == {{name: {{way: 2}} for name in {COLLECTIVES}}}, counts()
        if {setting!r} == "gloo":
            assert why_not_by_driver() == "OUTBOARD_COMMUNICATION=gloo"
        elif device.type == "host":
            assert way == "driver"
        else:
            assert "has no `communicate`" in why_not_by_driver()
        assert torch.accelerator.current_stream() == stream
        # In the order of the group's work, also where pieces meet whole ones.
        x = torch.full((2_100_001,), 1.0, device=device)
        for _ in range(3): dist.all_reduce(x, async_op=True)
        work = dist.all_reduce(x[:3], async_op=True)
        work.wait()
        assert bool((x[:3] == 16).all()) and bool((x[3:] == 8).all())
        # Gloo does the calls that the driver cannot do.
        before = counts()["ALLREDUCE"]
        x, y = (torch.ones(5, dtype=t, device=device) for t in (torch.float32, torch.float16))
        z, w = (torch.full((5,), value, device=device) for value in (6, 1 + 2j))
        for t in (x, y, w): dist.all_reduce(t)
        dist.all_reduce(z, dist.ReduceOp.BAND)
        assert x.tolist() == y.tolist() == [2.0] * 5 and z.tolist() == [6] * 5
        assert w.tolist() == [2 + 4j] * 5
        if way == "driver":
            assert counts()["ALLREDUCE"] == {{"driver": before["driver"] + 3, "gloo": 1}}, counts()
        # Messages have tags, which drivers do not know.
        if rank == 0: dist.send(x, 1, tag=5)
        else: dist.recv(x, 0, tag=5)
        assert set(counts()["SEND" if rank == 0 else "RECV"]) == {{"gloo"}}
    """)


@pytest.mark.slow
def test_ranks_on_other_devices_than_the_group_began_with(run_ranks: Run) -> None:
    run_ranks("""
        if torch.accelerator.device_count() == 1: sys.exit()
        begin()
        device = torch.device(device.type, rank)
        for elements in (3, 100_000): everything(elements)
        device = torch.device(device.type, 1 - rank)
        everything(5)
    """)


@pytest.mark.slow
def test_ranks_agree(run_ranks: Run) -> None:
    """One that is told to take Gloo, and then one that is told to take nothing else."""
    run_ranks("""
        import os
        from torch_outboard.distributed import operation_counts as counts, why_not_by_driver
        if rank == 1: os.environ["OUTBOARD_COMMUNICATION"] = "gloo"
        begin()
        x = torch.ones(5, device=device)
        dist.all_reduce(x)
        assert x.tolist() == [2.0] * 5
        assert counts() == {"ALLREDUCE": {"gloo": 1}}
        assert why_not_by_driver()
        dist.destroy_process_group()
        path += "again"
        os.environ["OUTBOARD_COMMUNICATION"] = ["driver", "gloo"][rank]
        if rank == 0: refused(RuntimeError, begin, "OUTBOARD_COMMUNICATION=driver")
        else: begin()
        sys.exit()
    """)


@pytest.mark.slow
def test_a_setting_that_does_not_exist(run_ranks: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", "nccl")
    run_ranks('refused(ValueError, begin, "not one of auto, driver, gloo")', ranks=1)
