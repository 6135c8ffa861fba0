"""The cost of each collective: bytes on the wire, messages one after another, copies, launches.

python -m benchmarks.distributed --costs

The model is that of docs/performance.md. It is compared with ranks in network namespaces
(benchmarks.network): the relay counts bytes, and the number of messages in a row is the slope of
the time over the delay.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import network

# Assumptions for a network of hosts: seconds each way, bytes per second, and bytes per second of a
# copy between device and host.
LATENCY, BANDWIDTH, COPY = 20e-6, 1.25e9, 10e9
HOSTS = (8, 64, 512)
SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20, "64 MiB": 64 << 20}

ROUNDS = 5
DELAYS = (0.0, 0.004)  # seconds
LOSSES = (0.001, 0.01)


@dataclass(frozen=True)
class Cost:
    """The cost of one collective by Gloo, for n ranks; the larger of its tensors counts as 1.

    Attributes:
        sent: what the rank that sends most sends.
        steps: messages that wait for each other. Each takes one delay of the network, or two where
            the receiver has to say first that it is there.
        copied: what a rank copies to the host and back on separate memory.
    """

    sent: Callable[[int], float]
    steps: Callable[[int], float]
    copied: Callable[[int], float]


def _log(n: int) -> int:
    return math.ceil(math.log2(n))


MODEL = {
    "all_reduce": Cost(lambda n: 2 * (n - 1) / n, lambda n: 2 * (n - 1), lambda n: 2),
    "reduce": Cost(lambda n: 1, lambda n: n, lambda n: 2),
    "broadcast": Cost(_log, _log, lambda n: 2),
    "all_gather": Cost(lambda n: (n - 1) / n, lambda n: n - 1, lambda n: 1 + 1 / n),
    "reduce_scatter": Cost(lambda n: 2 * (n - 1) / n, lambda n: 2 * (n - 1), lambda n: 1 + 1 / n),
    "all_to_all": Cost(lambda n: (n - 1) / n, lambda n: 1, lambda n: 2),
    "barrier": Cost(lambda n: 0, _log, lambda n: 0),
}


@dataclass(frozen=True)
class Measured:
    """Measures of one collective: bytes of each rank in one call, and seconds."""

    sent: list[float]
    seconds: float


def measure(ranks: int, delay: float, loss: float = 0.0) -> dict[tuple[str, int], Measured]:
    """Measures by collective and bytes, over a network. Raises RuntimeError if a rank fails."""
    found: dict[tuple[str, int], Measured] = {}
    with network.Network(ranks, delay, loss) as hosts, tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(ranks):
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.distributed_ranks"]
            command += [str(rank), str(ranks), f"{folder}/store", "costs", str(ROUNDS)]
            variables = os.environ | {
                "OUTBOARD_DRIVER": "host",
                "OUTBOARD_COMMUNICATION": "gloo",
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": hosts.interface(rank),
            }
            started.append(
                subprocess.Popen(
                    hosts.command(rank, command),
                    env=variables,
                    cwd=Path(__file__).parents[1],
                    stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                    text=True,
                )
            )
        assert started[0].stdout is not None
        before: list[int] = []
        for text in started[0].stdout:
            line = json.loads(text)
            if "begin" in line:
                before = list(hosts.sent)
            else:
                sent = [(b - a) / ROUNDS for a, b in zip(before, hosts.sent, strict=True)]
                found[line["end"], line["bytes"]] = Measured(sent, line["seconds"])
        if any(process.wait() for process in started):
            raise RuntimeError(f"the ranks failed, with a delay of {delay} s: see above")
    return found


def terms(name: str, hosts: int, size: int) -> dict[str, float]:
    """Seconds of each term, for the larger of a collective's tensors in bytes."""
    cost = MODEL[name]
    return {
        "latency": 2 * cost.steps(hosts) * LATENCY,
        "wire": cost.sent(hosts) * size / BANDWIDTH,
        "copies": cost.copied(hosts) * size / COPY,
    }


def extrapolate() -> None:
    """Prints the model's times for many hosts."""
    print(
        f"\nMany hosts, {1e6 * LATENCY:g} us each way, {8e-9 * BANDWIDTH:g} Gbit/s, copies of "
        f"{1e-9 * COPY:g} GB/s: ms, and the largest term\n"
    )
    names = [f"{hosts} hosts, {size}" for size in SIZES for hosts in HOSTS]
    print("| collective | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for name in MODEL:
        cells = []
        for size in SIZES.values():
            for hosts in HOSTS:
                found = terms(name, hosts, size)
                most = max(found, key=lambda term: found[term])
                # Copies overlap with the wire, in pieces.
                total = found["latency"] + max(found["wire"], found["copies"])
                cells.append(f"{1e3 * total:.3g} {most}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def report() -> None:
    """Prints the model and, where there can be a network, the measurements beside it."""
    reason = network.problem()
    if reason is not None:
        print(f"No network is measured here: {reason}. The model alone:\n")
    counts = (2, 3, 4)
    print(
        "| collective | ranks | sent, model | sent | messages in a row, model | delays | copied |"
    )
    print("|---|---|---|---|---|---|---|")
    for ranks in counts:
        at = {delay: measure(ranks, delay) for delay in DELAYS} if reason is None else {}
        for name, cost in MODEL.items():
            sent = steps = ""
            if at:
                large = at[0.0][name, 1 << 20]
                sent = f"{max(large.sent) / (1 << 20):.2f}"
                small = [at[delay][name, 4 * ranks].seconds for delay in DELAYS]
                steps = f"{(small[1] - small[0]) / (DELAYS[1] - DELAYS[0]):.1f}"
            print(
                f"| {name} | {ranks} | {cost.sent(ranks):.2f} | {sent} | {cost.steps(ranks):g} "
                f"| {steps} | {cost.copied(ranks):.2f} |",
                flush=True,
            )
    extrapolate()
    if reason is not None:
        return
    print("\n| all_reduce of 1 MiB, 2 ranks, 1 ms each way | ms |\n|---|---|")
    for loss in (0.0, *LOSSES):
        seconds = measure(2, 0.001, loss)["all_reduce", 1 << 20].seconds
        print(f"| {100 * loss:g} % of packets lost | {1e3 * seconds:.1f} |", flush=True)


if __name__ == "__main__":
    report()
