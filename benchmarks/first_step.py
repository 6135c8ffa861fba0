"""Seconds of a process's first training steps by device kernels, with nothing on disk.

    python -m benchmarks.first_step [--tree ../other] [--rounds 3] [--save NAME] [networks...]

Each network runs in separate processes with empty folders of programs, in turn in this tree and in
those of `--tree`, which have to be built: the first and second step, a step with another batch
size, the process with its exit, and in another process the first step with the first process's
programs on disk. `processor` is the time of all threads and of the compiler's processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.first_step_networks import NETWORKS

TREE = Path(__file__).resolve().parent.parent
RESULTS = TREE / "benchmarks" / "results"
# The networks come from this tree, the kit from the one that the process starts in.
PROCESS = """
import importlib.util, json, os, resource, sys, time
import torch
import torch_outboard
from torch_outboard import _C

assert os.path.dirname(os.path.dirname(torch_outboard.__file__)) == os.getcwd()
spec = importlib.util.spec_from_file_location("networks", sys.argv[1])
networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)
device = torch_outboard.device_name()
synchronize = torch.get_device_module(device).synchronize
torch.manual_seed(0)

def processor():
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)

def run(name, work):
    wall, cpu, built = time.perf_counter(), processor(), _C.program_counts()[0]
    result = work()
    synchronize()
    found[name] = {
        "seconds": time.perf_counter() - wall,
        "processor": processor() - cpu,
        "programs": _C.program_counts()[0] - built,
    }
    return result

found = {}
run("start", lambda: torch.ones(1, device=device))
step = run("model", lambda: networks.NETWORKS[sys.argv[2]](device))
for name, batch in (("first", 4), ("second", 4), ("other batch", 6), ("later", 4)):
    run(name, lambda: step(batch))
print(json.dumps(found))
"""
Times = dict[str, dict[str, float]]
COLUMNS = ("first", "second", "other batch", "later", "process", "first, warm")


def measure(tree: Path, network: str) -> Times:
    """Seconds, processor seconds and programs built of each part, cold and then warm.

    Raises:
        subprocess.CalledProcessError: where a step fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "OUTBOARD_DRIVER": "ocl",
            "OUTBOARD_PLACEMENT": "device",
            "OUTBOARD_CACHE_DIR": f"{folder}/programs",
            "POCL_CACHE_DIR": f"{folder}/pocl",
        }
        command = [
            str(tree / ".venv" / "bin" / "python"),
            "-c",
            PROCESS,
            str(TREE / "benchmarks" / "first_step_networks.py"),
            network,
        ]
        answers = [answer(command, os.environ | settings, tree) for _ in range(2)]
    return answers[0] | {"first, warm": answers[1]["first"]}


def answer(command: list[str], environment: dict[str, str], tree: Path) -> Times:
    """The output of a process, and its seconds as "process"."""
    start, before = time.perf_counter(), children()
    process = subprocess.run(
        command, env=environment, cwd=tree, stdout=subprocess.PIPE, text=True, check=True
    )
    seconds = time.perf_counter() - start
    found: Times = json.loads(process.stdout)
    return found | {"process": {"seconds": seconds, "processor": children() - before}}


def children() -> float:
    """Processor seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(runs: dict[str, dict[str, list[Times]]]) -> str:
    """Medians by network and tree, in Markdown."""
    lines = [
        "| network | tree | programs | " + " | ".join(f"{name}, s" for name in COLUMNS) + " |",
        "|---|---|---" + "|---" * len(COLUMNS) + "|",
    ]
    for network, trees in runs.items():
        for tree, rounds in trees.items():
            cells = []
            for name in COLUMNS:
                wall, cpu = (
                    statistics.median(found[name][unit] for found in rounds)
                    for unit in ("seconds", "processor")
                )
                cells.append(f"{wall:.2f} ({cpu:.2f})")
            counts = [rounds[0][name]["programs"] for name in ("first", "other batch")]
            programs = f"{counts[0]:.0f} + {counts[1]:.0f}"
            lines.append(f"| {network} | {tree} | {programs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", help="name of the files below benchmarks/results")
    options = parser.parse_args()
    trees = [*(tree.resolve() for tree in options.tree), TREE]
    runs: dict[str, dict[str, list[Times]]] = {}
    for network in options.networks:
        for _ in range(options.rounds):
            for tree in trees:
                found = measure(tree, network)
                runs.setdefault(network, {}).setdefault(tree.name, []).append(found)
        # The header belongs to the first network alone.
        lines = table({network: runs[network]}).splitlines()
        print("\n".join(lines[2 if len(runs) > 1 else 0 :]), flush=True)
        for tree_name, rounds in runs[network].items():
            if "compiler" in rounds[-1]:
                print(f"  {tree_name}, in the compiler: {rounds[-1]['compiler']}", flush=True)
    if options.save:
        (RESULTS / f"{options.save}.json").write_text(json.dumps(runs, indent=1) + "\n")
        (RESULTS / f"{options.save}.md").write_text(table(runs) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
