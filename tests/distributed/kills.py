"""Kills a rank at a random moment, again and again, and looks at what the others do.

    python -m tests.distributed.kills --runs 200

Each run starts three processes that communicate without an end, and kills one. The others have to
raise within the group's timeout, naming rank and operation, to go on using the device, and to end
with nothing left behind: no process, no shared memory. Exit status 1 means that one did not.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

# The device is registered in the ranks alone, or they could not use it: this process would have
# loaded its driver before it forks them.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch
import torch.distributed as dist

RANKS = 3
TIMEOUT = 5.0  # seconds, of the group
# Gloo tries several times to connect to one who is gone; and machines do much else.
MARGIN = 30.0
LATE = 3.0  # seconds that an error may come after the timeout
LATEST = 1.0  # seconds after which the kill comes at the latest
START_LIMIT = 30.0  # seconds that processes may take to begin
SHARED_MEMORY = Path("/dev/shm")


@dataclass
class Outcome:
    """What a run showed.

    Args:
        seconds: from the kill until the last of the others had raised.
        errors: what the others raised, by rank.
        faults: what is not as it should be, in words.
    """

    seconds: float = 0.0
    errors: dict[int, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def communicate(rank: int, seed: int, folder: Path) -> None:
    """A rank's life: raises when another one has gone, and returns if it survives that."""
    import torch_outboard

    name = torch_outboard.device_name()
    device = torch.device(name, rank % torch.accelerator.device_count())
    torch.accelerator.set_device_index(device.index)
    begun = False
    try:
        dist.init_process_group(
            init_method=f"file://{folder}/store", rank=rank, world_size=RANKS,
            timeout=timedelta(seconds=TIMEOUT),
        )  # fmt: skip
        draws = random.Random(seed)
        while True:
            size = int(2 ** draws.uniform(0, 17))
            x = torch.full((size,), float(rank), device=device)
            kind = draws.randrange(6)
            if kind == 0:
                dist.all_reduce(x)
            elif kind == 1:
                dist.broadcast(x, draws.randrange(RANKS))
            elif kind == 2:
                dist.all_gather([torch.empty_like(x) for _ in range(RANKS)], x)
            elif kind == 3:
                work = dist.isend(x, (rank + 1) % RANKS)
                dist.recv(x, (rank - 1) % RANKS)
                work.wait()
            elif kind == 4:
                dist.barrier()
            else:
                dist.all_reduce(x, async_op=True).wait()
            if draws.random() < 0.3:
                x.cpu()
            if not begun:
                begun = True
                Path(folder, f"begun-{rank}").touch()
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        where = "" if begun else "at the start: "
        Path(folder, f"error-{rank}").write_text(f"{time.monotonic()} {where}{text}")
    with suppress(AssertionError):  # there may be none yet
        dist.destroy_process_group()
    assert (torch.ones(3, device=device) + 1).tolist() == [2.0] * 3
    Path(folder, f"survived-{rank}").touch()


def shared_memory() -> set[str]:
    return set(os.listdir(SHARED_MEMORY)) if SHARED_MEMORY.is_dir() else set()


def run(seed: int) -> Outcome | None:
    """One run; None in a rank, which is to return from `main`, so that it ends as programs do."""
    draws = random.Random(seed)
    folder = Path(tempfile.mkdtemp())
    before = shared_memory()
    pids = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, pids[0] if pids else 0)
            log = os.open(folder / f"log-{rank}", os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            # Where it is, should it hang.
            faulthandler.dump_traceback_later(TIMEOUT + MARGIN, file=log)
            communicate(rank, seed, folder)
            faulthandler.cancel_dump_traceback_later()
            return None
        with suppress(PermissionError):  # it may have done so itself
            os.setpgid(pid, pids[0] if pids else 0)
        pids.append(pid)
    victim = draws.randrange(RANKS)
    # Some while the group begins, most while it communicates.
    if draws.random() < 0.8:
        deadline = time.monotonic() + START_LIMIT
        while len(list(folder.glob("begun-*"))) < RANKS and time.monotonic() < deadline:
            time.sleep(0.01)
    time.sleep(draws.uniform(0, LATEST))
    start = time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    outcome = Outcome()
    left = dict(enumerate(pids))
    while left and time.monotonic() < start + TIMEOUT + MARGIN:
        for rank, pid in list(left.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            del left[rank]
            code = os.waitstatus_to_exitcode(status)
            if rank != victim and code:
                outcome.faults.append(f"rank {rank} ended with {code}")
        time.sleep(0.01)
    for rank, pid in left.items():
        outcome.faults.append(f"rank {rank} hangs")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    check(outcome, folder, victim, pids[0], before, start)
    if outcome.faults:
        outcome.faults.append(f"logs in {folder}")
    else:
        shutil.rmtree(folder)
    return outcome


def check(
    outcome: Outcome, folder: Path, victim: int, group: int, before: set[str], killed: float
) -> None:
    """Adds to the faults what the others and the machine look like afterwards."""
    for rank in set(range(RANKS)) - {victim}:
        error, survived = folder / f"error-{rank}", folder / f"survived-{rank}"
        if not error.exists():
            outcome.faults.append(f"rank {rank} raised nothing")
            continue
        moment, _, text = error.read_text().partition(" ")
        outcome.errors[rank] = text
        seconds = float(moment) - killed
        outcome.seconds = max(outcome.seconds, seconds)
        if seconds > TIMEOUT + LATE and not text.startswith("at the start: "):
            outcome.faults.append(f"rank {rank} raised after {seconds:.1f} s")
        if f"rank {rank} of {RANKS}" not in text and not text.startswith("at the start: "):
            outcome.faults.append(f"rank {rank} names no rank and operation: {text}")
        if not survived.exists():
            outcome.faults.append(f"rank {rank} could not use the device any more")
    try:
        os.killpg(group, 0)
        outcome.faults.append("a process is left")
    except ProcessLookupError:
        pass
    if left := {name for name in shared_memory() - before if "torch" in name or "outboard" in name}:
        outcome.faults.append(f"shared memory is left: {', '.join(sorted(left))}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.distributed.kills", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    os.environ.setdefault("OUTBOARD_DRIVER", "host")
    torch.set_num_threads(1)
    kinds: Counter[str] = Counter()
    slowest, bad = 0.0, 0
    for number in range(options.runs):
        sys.stdout.flush()
        outcome = run(options.seed * 100_003 + number)
        if outcome is None:
            return 0
        slowest = max(slowest, outcome.seconds)
        for text in outcome.errors.values():
            words = text.partition("at the start: ")
            kinds["at the start" if words[1] else text.partition(" ")[0]] += 1
        if outcome.faults:
            bad += 1
            print(f"run {number}: {'; '.join(outcome.faults)}", flush=True)
    print(f"raised by: {', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}")
    print(
        f"{options.runs} runs, {bad} with faults; the others raised after at most "
        f"{slowest:.1f} s, and the timeout is {TIMEOUT:.0f} s"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
