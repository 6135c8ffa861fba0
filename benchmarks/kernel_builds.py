"""Time to build the kernels of the demo's training step, and to load them from the disk.

    python -m benchmarks.kernel_builds [--driver host] [--json]

The first training step in a process, less a later one: with an empty folder of programs (cold), and
in another process with the programs of the first (warm). Programs are built in as many processes as
the driver runs at once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

COLD_LIMIT, WARM_LIMIT = 10.0, 1.0  # seconds
STEP = """
import statistics, sys, time
import torch
import torch_outboard
from benchmarks.training_steps import WORKS
from torch_outboard import _C

device = torch_outboard.device_name()
synchronize = torch.get_device_module(device).synchronize
# The cost of every first use does not belong to kernels.
torch.ones(1, device=device)
synchronize()
step = WORKS["CNN of the demo"](device)
times = []
for _ in range(6):
    start = time.perf_counter()
    step()
    synchronize()
    times.append(time.perf_counter() - start)
print(times[0] - statistics.median(times[1:]), *_C.program_counts()[:2])
"""


def measure(driver: str) -> dict[str, tuple[float, int, int]]:
    """Seconds, programs built and programs loaded, cold and warm.

    Raises:
        subprocess.CalledProcessError: where a step fails.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "OUTBOARD_DRIVER": driver,
            "OUTBOARD_PLACEMENT": "device",
            "OUTBOARD_CACHE_DIR": folder,
        }
        # PoCL caches programs, too.
        settings["POCL_CACHE_DIR"] = f"{folder}/pocl"
        for name in ("cold", "warm"):
            answer = subprocess.run(
                [sys.executable, "-c", STEP],
                env=os.environ | settings, capture_output=True, text=True, check=True,
            )  # fmt: skip
            seconds, built, loaded = answer.stdout.split()
            found[name] = (float(seconds), int(built), int(loaded))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--driver", default="host")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.driver)
    if options.json:
        print(json.dumps(found))
        return 0
    for name, limit in (("cold", COLD_LIMIT), ("warm", WARM_LIMIT)):
        seconds, built, loaded = found[name]
        print(
            f"{name}: {seconds:.2f} s, limit {limit:g} s; {built} programs built, {loaded} loaded"
        )
    return int(found["cold"][0] > COLD_LIMIT or found["warm"][0] > WARM_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
