"""A group that is given up while others do not answer."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.by_turns(3)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("all_reduce", "auto"),
        ("recv", "gloo"),
        pytest.param("all_reduce", "gloo", marks=pytest.mark.slow),
        pytest.param("recv", "auto", marks=pytest.mark.slow),
    ],
)
def test_abort_of_work_that_hangs(
    try_ranks: Run, monkeypatch: pytest.MonkeyPatch, setting: str, kind: str
) -> None:
    """Waiters raise soon, the device goes on, memory is not used twice, the process ends."""
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", setting)
    results = try_ranks(
        f"""
        import threading
        begin(seconds=600)
        x = torch.ones(1000, device=device)
        dist.all_reduce(x)
        x.cpu()
        if rank == 1:
            wait_until_the_other_is_done()
            os._exit(0)
        kind = {kind!r}
        start = time.monotonic()
        def call(): return dist.irecv(x, 1) if kind == "recv" else dist.all_reduce(x, async_op=True)
        works = [call(), call()]
        raised = []
        def wait(work):
            try:
                if kind == "recv": work.wait()
                else: work.wait(datetime.timedelta(seconds=300))
                x.cpu()
            except RuntimeError as error:
                raised.append(error)
        waiters = [threading.Thread(target=wait, args=(work,)) for work in works]
        for waiter in waiters: waiter.start()
        time.sleep(0.5)
        assert not raised
        dist.group.WORLD._get_backend(device).abort()
        for waiter in waiters: waiter.join(20)
        assert not any(waiter.is_alive() for waiter in waiters)
        assert raised and "aborted" in str(raised[0]), raised
        assert time.monotonic() - start < 25
        try:
            torch.accelerator.synchronize()
        except RuntimeError as error:
            assert "aborted" in str(error), error
        # Memory that the CPU backend may still write has no other user.
        del x, works
        others = [torch.full((1000,), -1.0, device=device) for _ in range(10)]
        assert all(bool((o == -1).all()) for o in others)
        dist.destroy_process_group()
        assert time.monotonic() - start < 30
        say_done()
        print("done", flush=True)
        """,
        timeout=120,
    )
    assert results[0].returncode == 0, results[0].stderr
    assert "done" in results[0].stdout


def test_who_waits_for_a_stream_learns_of_every_abort(run_ranks: Run) -> None:
    """However soon the work ends that was given up."""
    outputs = run_ranks(
        """
        import threading
        begin()
        missed = 0
        for _ in range(60):
            group = dist.new_group()
            if rank == 1: continue
            x = torch.ones(10, device=device)
            work = dist.irecv(x, 1, group=group)
            # Its wait is for the device: nothing waits for the host's part of it.
            work.wait()
            aborting = threading.Timer(0.01, group._get_backend(device).abort)
            aborting.start()
            try:
                x.cpu()
                missed += 1
            except RuntimeError as error:
                assert "aborted" in str(error), error
            aborting.join()
            try: torch.accelerator.synchronize()
            except RuntimeError as error: assert "aborted" in str(error), error
        if rank == 1:
            wait_until_the_other_is_done()
            os._exit(0)
        say_done()
        print("missed", missed, flush=True)
        os._exit(0)
    """
    )
    assert "missed 0\n" in outputs[0]
