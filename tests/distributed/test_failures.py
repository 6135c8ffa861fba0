"""Ranks that end, hang or pass something else: the others are told in time, and nothing stays."""

from __future__ import annotations

import pytest

from tests.distributed.ranks import Run

pytestmark = [pytest.mark.by_turns(3), pytest.mark.separate]


@pytest.mark.parametrize("end", ["ends", pytest.param("hangs", marks=pytest.mark.slow)])
def test_a_rank_that_is_not_there(try_ranks: Run, end: str) -> None:
    results = try_ranks(f"""
        begin(seconds=5)
        x = torch.ones(3, device=device)
        dist.all_reduce(x)
        assert x.tolist() == [2.0] * 3
        if rank == 1:
            if {end!r} == "hangs": wait_until_the_other_is_done()
            os._exit(0)
        start = time.monotonic()
        work = dist.all_reduce(x, async_op=True)
        try:
            work.wait()
            x.cpu()
            torch.accelerator.synchronize()
        except RuntimeError as error:
            print(type(error).__name__, error)
        else:
            raise AssertionError("nobody answered, and nobody said so")
        assert time.monotonic() - start < 15
        say_done()
        assert not work.is_success()
        try:
            dist.all_reduce(x)
        except RuntimeError as error:
            print("again:", error)
        else:
            raise AssertionError("the group is broken")
        dist.destroy_process_group()
        print((torch.ones(2, device=device) + 1).tolist())
    """)
    first = results[0]
    assert first.returncode == 0, first.stderr
    assert "ALLREDUCE (number 2 of group '0', rank 0 of 2" in first.stdout, first.stdout
    assert "again:" in first.stdout
    assert "[2.0, 2.0]" in first.stdout


def test_wrong_arguments(run_ranks: Run) -> None:
    run_ranks("""
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
        assert x.tolist() == [2.0] * 4
        group = dist.new_group()
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
