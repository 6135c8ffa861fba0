"""Programs that run on several ranks, each in a separate process."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import ROOT, SLOWNESS, try_python

Run = Callable[..., Any]

# The head of each program. `rank`, `ranks`, `device`; a group over a file, which needs no port.
PROGRAM = f"""
import datetime, os, sys, time
sys.path.append({str(ROOT)!r})
import torch
import torch.distributed as dist
import torch_outboard

rank, ranks, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
device = torch.device(torch_outboard.device_name(), 0)

def begin(seconds=60, **options):
    dist.init_process_group(
        init_method=f"file://{{path}}", rank=rank, world_size=ranks,
        timeout=datetime.timedelta(seconds=seconds), **options,
    )

def use_own_device():
    # As a device mesh does in a process that has not used any.
    global device
    device = torch.device(device.type, rank % torch.accelerator.device_count())
    torch.accelerator.set_device_index(device.index)

def refused(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(("nothing was raised", *words))

def say_done():
    open(path + ".done", "w").close()

def wait_until_the_other_is_done(seconds=60):
    end = time.monotonic() + seconds
    while not os.path.exists(path + ".done") and time.monotonic() < end: time.sleep(0.02)

def of_rank(rank, *size, dtype=torch.float32):
    # Random numbers of a rank, known to all.
    generator = torch.Generator().manual_seed(rank + 1)
    drawn = torch.randint(-4, 5, size, generator=generator)
    return drawn.bool() if dtype == torch.bool else drawn.abs().to(dtype)
"""
# Every collective, of `elements` for each rank, against what it has to be.
EVERYTHING = """
def same(ours, theirs):
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    ours, theirs = (t.cpu().contiguous().reshape(-1) for t in (ours, theirs))
    if ours.is_complex(): ours, theirs = torch.view_as_real(ours), torch.view_as_real(theirs)
    assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8)), (ours, theirs)

def everything(elements, dtype=torch.float32, reduces=True):
    def drawn(seed): return of_rank(seed, elements, dtype=dtype)
    x, parts = drawn(rank).to(device), [drawn(r) for r in range(ranks)]
    # The input of this rank for each, and of each for it.
    whole = torch.cat([drawn(rank + 7 * r) for r in range(ranks)]).to(device)
    mine = [drawn(r + 7 * rank) for r in range(ranks)]
    if reduces:
        y = x.clone()
        dist.all_reduce(y)
        same(y, sum(parts))
        y = x.clone()
        dist.reduce(y, 1, dist.ReduceOp.MAX)
        same(y, torch.stack(parts).amax(0) if rank == 1 else parts[rank])
        dist.reduce_scatter_tensor(y, whole)
        same(y, sum(mine))
        dist.reduce_scatter(y, list(whole.split(elements)), dist.ReduceOp.AVG)
        same(y, sum(mine) / ranks)
    y = x.clone()
    dist.broadcast(y, 1)
    same(y, parts[1])
    out = torch.empty(ranks * elements, dtype=dtype, device=device)
    dist.all_gather_into_tensor(out, x)
    same(out, torch.cat(parts))
    outs = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(outs, x)
    for ours, theirs in zip(outs, parts): same(ours, theirs)
    dist.all_to_all_single(out, whole)
    same(out, torch.cat(mine))
    dist.all_to_all(outs, list(whole.split(elements)))
    for ours, theirs in zip(outs, mine): same(ours, theirs)
    outs = [torch.empty_like(x) for _ in range(ranks)] if rank == 1 else None
    dist.gather(x, outs, 1)
    for ours, theirs in zip(outs or (), parts): same(ours, theirs)
    dist.scatter(y, list(whole.split(elements)) if rank == 1 else None, 1)
    same(y, drawn(1 + 7 * rank))
"""
# Forks ranks, in which alone PyTorch gets to know the device, and prints how they ended.
LEADER = """
import gc, json, os, signal, sys, time
import torch
import torch.distributed

folder, ranks, timeout = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
source = open(f"{folder}/program.py").read()
if "arallel" in source: import torch._dynamo  # which the module of that name needs, once for all
gc.freeze()  # or the end of each rank would go through all objects of PyTorch
processes = []
for rank in range(ranks):
    processes.append(os.fork())
    if processes[-1] == 0: break
else:
    end = time.monotonic() + timeout
    statuses = {}
    while len(statuses) < ranks:
        for process in set(processes) - set(statuses):
            found, status = os.waitpid(process, os.WNOHANG)
            if found: statuses[process] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end: os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    print(json.dumps([statuses[process] for process in processes]), flush=True)
    os._exit(0)
for descriptor, name in enumerate(("output", "errors"), 1):
    os.dup2(os.open(f"{folder}/{name}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
torch._import_device_backends()
sys.argv[1:] = [str(rank), str(ranks), f"{folder}/store"]
exec(compile(source, "<string>", "exec"))
"""
# The end of programs that are not disturbed.
END = """
if dist.is_initialized(): dist.destroy_process_group()
"""


def run_ranks(program: str, folder: Path, ranks: int = 2, timeout: float = 240) -> list[str]:
    """The output of each rank.

    Args:
        program: what stands between PROGRAM and END.
        folder: for the store and what they write.
        timeout: seconds, times `SLOWNESS`.

    Raises:
        AssertionError: if one ends with another status than 0, with what all of them wrote.
    """
    results = try_ranks(textwrap.dedent(program) + END, folder, ranks, timeout)
    text = "\n".join(f"--- rank {i}\n{r.stdout}\n{r.stderr}" for i, r in enumerate(results))
    assert [r.returncode for r in results] == [0] * ranks, text
    return [r.stdout for r in results]


def try_ranks(
    program: str, folder: Path, ranks: int = 2, timeout: float = 240
) -> list[subprocess.CompletedProcess[str]]:
    """The same without END, whatever the statuses are. None of the processes is left behind."""
    (folder / "store").unlink(missing_ok=True)  # of programs before
    (folder / "program.py").write_text(PROGRAM + textwrap.dedent(program))
    arguments = (str(folder), str(ranks), str(timeout * SLOWNESS))
    led = try_python(LEADER, *arguments, timeout=timeout + 60, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert led.returncode == 0, led.stderr
    return [
        subprocess.CompletedProcess(
            f"rank {rank}",
            status,
            *((folder / f"{kind}-{rank}").read_text() for kind in ("output", "errors")),
        )
        for rank, status in enumerate(json.loads(led.stdout))
    ]


def torchrun(*arguments: str, timeout: float = 240, **env: str) -> subprocess.CompletedProcess[str]:
    """`torchrun --standalone` with these arguments; programs can import from `tests`.

    Args:
        timeout: seconds, times `SLOWNESS`.
        env: environment variables on top of this process's.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout * SLOWNESS,
        env={**os.environ, "PYTHONPATH": path, **env},
        check=False,
    )
