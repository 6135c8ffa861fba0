"""Kills a rank at a random moment, again and again, and looks at what the others do.

    python -m tests.distributed.kills --runs 200

In each run three processes communicate without an end, and one is killed. The others have to
raise within the group's timeout, naming rank and operation, to go on using the device, and to end
with nothing left behind: no process, no shared memory. Exit status 1 means that one did not.
"""

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.distributed.ranks import try_ranks

RANKS = 3
TIMEOUT = 5.0  # seconds, of the group
# Gloo tries several times to connect to one who is gone; and machines do much else.
MARGIN = 30.0
LATE = 3.0  # seconds that an error may come after the timeout
LATEST = 1.0  # seconds after which the kill comes at the latest
START_LIMIT = 30.0  # seconds that processes may take to begin
SHARED_MEMORY = Path("/dev/shm")

# The program of a rank, and of the victim up to a moment. Prints its death or its error.
COMMUNICATE = """
import faulthandler, random, signal, threading
from contextlib import suppress
from pathlib import Path

seed, victim, early, late = {numbers}
torch.set_num_threads(1)
folder = Path(path).parent
use_own_device()
faulthandler.dump_traceback_later({limit})  # where it is, should it hang

def die():
    # Sometimes while the group begins, mostly while it communicates.
    end = time.monotonic() + {start_limit}
    while not early and len(list(folder.glob("begun-*"))) < ranks and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(late)
    print(time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if rank == victim: threading.Thread(target=die, daemon=True).start()
begun = False
try:
    begin(seconds={timeout})
    draws = random.Random(seed)
    while True:
        x = torch.full((int(2 ** draws.uniform(0, 17)),), float(rank), device=device)
        kind = draws.randrange(6)
        if kind == 0: dist.all_reduce(x)
        elif kind == 1: dist.broadcast(x, draws.randrange(ranks))
        elif kind == 2: dist.all_gather([torch.empty_like(x) for _ in range(ranks)], x)
        elif kind == 3:
            work = dist.isend(x, (rank + 1) % ranks)
            dist.recv(x, (rank - 1) % ranks)
            work.wait()
        elif kind == 4: dist.barrier()
        else: dist.all_reduce(x, async_op=True).wait()
        if draws.random() < 0.3: x.cpu()
        if not begun:
            begun = True
            (folder / f"begun-{{rank}}").touch()
except RuntimeError as error:
    print(time.monotonic(), "" if begun else "at the start:", str(error).splitlines()[0])
with suppress(AssertionError):  # there may be none yet
    dist.destroy_process_group()
assert (torch.ones(3, device=device) + 1).tolist() == [2.0] * 3
"""


@dataclass
class Outcome:
    """The outcome of a run.

    Args:
        seconds: from the kill until the last of the others had raised.
        errors: what the others raised.
        faults: what is not as it should be, in words.
    """

    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def shared_memory() -> set[str]:
    names = os.listdir(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else []
    return {name for name in names if "torch" in name or "outboard" in name}


def run(seed: int) -> Outcome:
    draws = random.Random(seed)
    victim = draws.randrange(RANKS)
    before = shared_memory()
    limit = TIMEOUT + MARGIN
    program = COMMUNICATE.format(
        numbers=(seed, victim, draws.random() >= 0.8, draws.uniform(0, LATEST)),
        limit=limit,
        timeout=TIMEOUT,
        start_limit=START_LIMIT,
    )
    with tempfile.TemporaryDirectory() as folder:
        results = try_ranks(program, Path(folder), RANKS, timeout=START_LIMIT + limit)
    outcome = Outcome()
    killed = float(results[victim].stdout.split()[0])
    for rank, result in enumerate(results):
        if rank == victim:
            continue
        if result.returncode:
            outcome.faults.append(f"rank {rank} ended with {result.returncode}: {result.stderr}")
        moment, _, text = result.stdout.partition(" ")
        if not text:
            outcome.faults.append(f"rank {rank} raised nothing")
            continue
        outcome.errors.append(text.strip())
        seconds = float(moment) - killed
        outcome.seconds = max(outcome.seconds, seconds)
        if text.startswith("at the start:"):
            continue
        if seconds > TIMEOUT + LATE:
            outcome.faults.append(f"rank {rank} raised after {seconds:.1f} s")
        if f"rank {rank} of {RANKS}" not in text:
            outcome.faults.append(f"rank {rank} names no rank and operation: {text}")
    if left := shared_memory() - before:
        outcome.faults.append(f"shared memory is left: {', '.join(sorted(left))}")
    return outcome


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.distributed.kills", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    os.environ.setdefault("OUTBOARD_DRIVER", "host")
    kinds: Counter[str] = Counter()
    slowest, bad = 0.0, 0
    for number in range(options.runs):
        outcome = run(options.seed * 100_003 + number)
        slowest = max(slowest, outcome.seconds)
        for text in outcome.errors:
            at_start = text.startswith("at the start:")
            kinds["at the start" if at_start else text.partition(" ")[0]] += 1
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
