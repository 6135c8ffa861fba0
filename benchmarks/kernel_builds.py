"""Time to build the kernels of the demo's training step, and to load them from the disk.

    python -m benchmarks.kernel_builds [--driver host] [--json]

The first training step in a process, less a later one: with an empty folder of programs (cold), and
in another process with the programs of the first (warm). Programs are built in as many processes as
the driver runs at once. Of each kernel's build, the time in which Python writes its source is shown
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

COLD_LIMIT, WARM_LIMIT = 10.0, 1.0  # seconds
SOURCE_LIMIT = 5.0  # milliseconds of Python for a kernel
STEP = """
import statistics, sys, time
import torch
import torch_outboard
from benchmarks.training_steps import WORKS
from torch_outboard import _C
from torch_outboard.ops import sources

written = []

def timed(write):
    def run(*arguments, **fields):
        start = time.perf_counter()
        source = write(*arguments, **fields)
        written.append(1e3 * (time.perf_counter() - start))
        return source
    return run

# C++ finds the functions by name at each call.
for name in ("fourier", "list_norms", "pointwise", "product", "reduction", "template"):
    setattr(sources, name, timed(getattr(sources, name)))

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
print(*sorted(written))
"""


class Build(NamedTuple):
    """Of a process.

    Args:
        seconds: more than a later step takes.
        built: programs.
        loaded: programs.
        sources: milliseconds in which Python wrote a source, ascending.
    """

    seconds: float
    built: int
    loaded: int
    sources: list[float]


def measure(driver: str) -> dict[str, Build]:
    """Cold and warm.

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
            counts, times = answer.stdout.splitlines()
            seconds, built, loaded = counts.split()
            sources = [float(value) for value in times.split()]
            found[name] = Build(float(seconds), int(built), int(loaded), sources)
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
        print(json.dumps({name: build._asdict() for name, build in found.items()}))
        return 0
    for name, limit in (("cold", COLD_LIMIT), ("warm", WARM_LIMIT)):
        build = found[name]
        print(
            f"{name}: {build.seconds:.2f} s, limit {limit:g} s; {build.built} programs built, "
            f"{build.loaded} loaded"
        )
    times = found["cold"].sources
    print(
        f"source of a kernel by Python: median {statistics.median(times):.2f} ms, longest "
        f"{times[-1]:.2f} ms, limit {SOURCE_LIMIT:g} ms, of {len(times)}"
    )
    slow = found["cold"].seconds > COLD_LIMIT or found["warm"].seconds > WARM_LIMIT
    return int(slow or statistics.median(times) > SOURCE_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
