"""What an installed backend adds to the processor time of `import torch`.

    python -m benchmarks.import_time [--rounds 25]

Starts Python in turn with and without the backend, from start to exit, and takes the median of the
differences. PyTorch looks for backends where none is installed, too.
Fails if importing loads the driver's library, or if the median lies above the limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from benchmarks.paired import median_interval

LIMIT = 0.06  # seconds
WITHOUT = """
import torch
from importlib.metadata import entry_points
entry_points(group="torch.backends")
"""
CHECK = """
import torch
from torch_outboard import _C
assert "torch_outboard" in __import__("sys").modules
assert not _C.driver_initialized(), "import torch initialized the driver"
assert "libob_" not in open("/proc/self/maps").read(), "import torch loaded a driver"
"""


def seconds_to_import(autoload: bool) -> float:
    """Processor seconds of a process that imports PyTorch and ends.

    Raises:
        subprocess.CalledProcessError: if that fails.
    """
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload))}
    # Installed packages have their bytecode.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", "import torch" if autoload else WITHOUT]
    process = subprocess.Popen(command, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime


def measure(rounds: int) -> tuple[float, float, float]:
    """Added seconds: median and its 95 % interval.

    Raises:
        subprocess.CalledProcessError: if importing PyTorch calls the driver.
    """
    subprocess.run([sys.executable, "-c", CHECK], check=True)
    for autoload in (True, False):
        seconds_to_import(autoload)  # writes bytecode that is missing
    added = []
    for number in range(rounds):
        times = {}
        for autoload in (True, False) if number % 2 else (False, True):
            times[autoload] = seconds_to_import(autoload)
        added.append(times[True] - times[False])
    return median_interval(added)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    median, low, high = measure(options.rounds)
    print(
        f"import torch takes {median * 1e3:.0f} ms more of the processor "
        f"[{low * 1e3:.0f}, {high * 1e3:.0f}]"
    )
    print(f"limit {LIMIT * 1e3:.0f} ms, no driver loaded")
    return int(median > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
