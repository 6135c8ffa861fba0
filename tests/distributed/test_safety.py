"""PyTorch's checks for ranks that call different collectives, for groups of the device."""

import os

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.slow


def test_other_shapes(run_ranks: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL a call is compared before it is made."""
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    run_ranks("""
        begin(seconds=20)
        x = torch.ones(3, device=device)
        dist.all_reduce(x)
        assert x.tolist() == [2.0] * 3
        for call, words in (
            (lambda: dist.all_reduce(torch.ones(3 + rank, device=device)), ("shapes", "rank")),
            (lambda: dist.all_reduce(x) if rank else dist.broadcast(x, 0),
             ("ALLREDUCE", "BROADCAST")),
        ):
            refused(RuntimeError, call, *words)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to(device))
        model(torch.ones(1, 2, device=device)).sum().backward()
    """)


@pytest.mark.parametrize("way", ["auto", "gloo"])
def test_other_shapes_are_not_waited_for_longer_than_the_timeout(
    try_ranks: Run, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Without that mode at least one rank raises within the timeout, and all can go on."""
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", way)
    results = try_ranks("""
        import os, time
        begin(seconds=5)
        start = time.monotonic()
        try:
            x = torch.ones(3 + 1000 * rank, device=device)
            dist.all_reduce(x)
            x.cpu()
            dist.barrier()
        except RuntimeError as error:
            print("raised:", str(error).splitlines()[0])
        assert time.monotonic() - start < 30
        dist.destroy_process_group()
        print("ended", (torch.ones(2, device=device) + 1).tolist())
    """)
    # On a separate thread, with no caller to catch it, Gloo ends a process to which more comes
    # than it has asked for, on CPU as well.
    ended = [r for r in results if way == "gloo" and "collective mismatch" in r.stderr]
    assert [r.returncode for r in results if r not in ended] == [0] * (2 - len(ended)), results
    raised = [result.stdout for result in results if "raised:" in result.stdout]
    assert any(f"rank {rank} of 2" in text for text in raised for rank in (0, 1)), results


def test_flight_recorder(run_ranks: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo's last operations, with sizes and groups, without communication by the driver."""
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "100")
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", "gloo")
    run_ranks("""
        import json
        from torch._C._distributed_c10d import _dump_fr_trace_json
        begin()
        x = torch.ones(5, device=device)
        dist.all_reduce(x)
        dist.all_gather([torch.empty_like(x) for _ in range(ranks)], x)
        x.cpu()
        entries = json.loads(_dump_fr_trace_json())["entries"]
        names = [entry["profiling_name"] for entry in entries]
        assert {"gloo:all_reduce", "gloo:all_gather"} <= set(names), names
    """)


def test_nothing_stays_after_destroy(run_ranks: Run) -> None:
    """Groups that come and go leave no threads, files, sockets or shared memory."""
    before = set(os.listdir("/dev/shm"))
    run_ranks("""
        import os
        begin()
        x = torch.ones(100, device=device)
        def one_group():
            group = dist.new_group()
            dist.all_reduce(x.fill_(1), group=group)
            assert x[0].item() == 2
            work = dist.all_reduce(x, group=group, async_op=True)
            work.wait()
            dist.barrier(group)
            dist.destroy_process_group(group)
        def counts():
            # Without those of queues, which belong to PyTorch's pool of 32 streams: groups take
            # one after the other from it.
            tasks = os.listdir("/proc/self/task")
            names = [open(f"/proc/self/task/{task}/comm").read() for task in tasks]
            threads = [name for name in names if not name.startswith("outboard_")]
            return len(threads), len(os.listdir("/proc/self/fd"))
        for _ in range(4): one_group()
        dist.barrier()
        threads, files = counts()
        for _ in range(12): one_group()
        dist.barrier()
        now = counts()
        assert now[0] <= threads + 2 and now[1] <= files + 4, ((threads, files), now)
    """)
    left = {name for name in set(os.listdir("/dev/shm")) - before if "outboard" in name}
    assert not left


def test_interfaces(run_ranks: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens elsewhere than on the interface that was asked for."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    run_ranks("""
        import os
        begin(backend=f"cpu:gloo,{device.type}:outboard")
        x = torch.ones(3, device=device)
        dist.all_reduce(x)
        x.cpu()
        own = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
               if os.path.exists(f"/proc/self/fd/{fd}")}
        listening = set()
        for kind in ("tcp", "tcp6"):
            for line in open(f"/proc/net/{kind}").read().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                    listening.add(fields[1].split(":")[0])
        loopback = {"0100007F", "00000000000000000000000001000000",
                    "0000000000000000FFFF00000100007F"}
        assert listening and listening <= loopback, listening
        dist.barrier()
    """)
