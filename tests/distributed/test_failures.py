"""Ranks that end, hang or pass something else: the others are told in time, and nothing stays."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.by_turns(2)


@pytest.mark.parametrize(
    ("end", "timeout"), [("is killed", 60), pytest.param("hangs", 5, marks=pytest.mark.slow)]
)
def test_a_rank_that_is_not_there(try_ranks: Run, end: str, timeout: int) -> None:
    """The driver of the host sees that a process has ended, and so does Gloo."""
    results = try_ranks(f"""
        import signal
        begin(seconds={timeout})
        x = torch.ones(3, device=device)
        dist.all_reduce(x)
        assert x.tolist() == [2.0] * 3
        if rank == 1:
            if {end!r} == "hangs": wait_until_the_other_is_done()
            os.kill(os.getpid(), signal.SIGKILL)
        start = time.monotonic()
        work = dist.all_reduce(x, async_op=True)
        def wait():
            work.wait()
            x.cpu()
            torch.accelerator.synchronize()
        refused(RuntimeError, wait, "ALLREDUCE (number 2 of group '0', rank 0 of 2")
        assert time.monotonic() - start < 15
        say_done()
        assert not work.is_success()
        # The group is broken, and the device is not.
        refused(RuntimeError, lambda: dist.all_reduce(x))
        assert not [name for name in os.listdir("/dev/shm") if "outboard" in name]
        dist.destroy_process_group()
        print((torch.ones(2, device=device) + 1).tolist())
    """)
    first = results[0]
    assert first.returncode == 0, first.stderr
    assert "[2.0, 2.0]" in first.stdout


def test_refused_calls(run_ranks: Run) -> None:
    """Wrong arguments, a forked child, a group that is gone."""
    run_ranks("""
        from tests.forking import in_child
        begin()
        x, y = torch.ones(4, device=device), torch.ones(4, dtype=torch.int32, device=device)
        refused(ValueError, lambda: dist.all_gather([torch.empty_like(x)], x))
        refused((TypeError, ValueError, RuntimeError), lambda: dist.all_gather_into_tensor(
            torch.empty(5, device=device), x))
        refused((TypeError, ValueError), lambda: dist.all_to_all_single(y, x), "dtype")
        refused(RuntimeError, lambda: dist.all_to_all_single(
            torch.empty_like(x), x, [1, 1], [2, 2]))
        refused((RuntimeError, ValueError), lambda: dist.reduce_scatter_tensor(x, x))
        if torch.accelerator.device_count() > 1:
            other = torch.empty(4, device=torch.device(device.type, 1))
            refused(ValueError, lambda: dist.all_gather([x, other], x), "one device")
        dist.all_reduce(x)
        outcome = in_child(lambda: dist.all_reduce(x))
        assert "forked child" in outcome and "spawn" in outcome, outcome
        dist.all_reduce(x)
        assert x.tolist() == [4.0] * 4
        dist.destroy_process_group()
        refused((ValueError, RuntimeError, AssertionError), lambda: dist.all_reduce(x))
    """)


@pytest.mark.slow
def test_exit_without_destroying(try_ranks: Run) -> None:
    """With work that the other rank never joins."""
    for result in try_ranks(
        """
        begin(seconds=5)
        x = torch.ones(3, device=device)
        dist.all_reduce(x)
        x.cpu()
        if rank == 0:
            dist.all_reduce(x, async_op=True)
        """,
        timeout=60,
    ):
        assert result.returncode == 0, result.stderr
