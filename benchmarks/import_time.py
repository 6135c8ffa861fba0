"""The processor time that an installed backend adds to `import torch`.

    python -m benchmarks.import_time [--rounds 25] [--save]

Starts Python in turn with and without the backend, from start to exit, and takes the median of the
differences. PyTorch looks for backends where none is installed, too. A process takes seconds, whose
noise exceeds the difference on a busy machine. So the backend's part, from its entry point to the
registered device, is measured in one process as well.
Fails if importing loads the driver's library, if the backend's part is above the limit, or if the
whole interval of the difference is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.paired import median_interval

LIMIT = 0.06  # seconds
RESULT = Path(__file__).resolve().parent / "results" / "import_time.md"
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

OWN_PART = """
import time
import torch
from importlib.metadata import entry_points
[entry] = entry_points(group="torch.backends")
start = time.process_time()
entry.load()()
print(time.process_time() - start)
"""


def seconds_of_the_backend() -> float:
    """Processor seconds from its entry point to the registered device."""
    environment = environment_of(autoload=False)
    command = [sys.executable, "-c", OWN_PART]
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(answer.stdout)


def environment_of(autoload: bool) -> dict[str, str]:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload))}
    # Installed packages have their bytecode.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def seconds_to_import(autoload: bool) -> float:
    """Processor seconds of a process that imports PyTorch and ends.

    Raises:
        subprocess.CalledProcessError: if that fails.
    """
    command = [sys.executable, "-c", "import torch" if autoload else WITHOUT]
    process = subprocess.Popen(command, env=environment_of(autoload))
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
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name} below results")
    options = parser.parse_args()
    median, low, high = measure(options.rounds)
    own, own_low, own_high = median_interval(
        [seconds_of_the_backend() for _ in range(options.rounds)]
    )
    found = (
        f"import torch takes {median * 1e3:.0f} ms more of the processor "
        f"[{low * 1e3:.0f}, {high * 1e3:.0f}]\n"
        f"the backend's own part takes {own * 1e3:.0f} ms "
        f"[{own_low * 1e3:.0f}, {own_high * 1e3:.0f}]"
    )
    print(found)
    if options.save:
        RESULT.write_text(f"{options.rounds} rounds:\n\n{found}\n")
    print(f"limit {LIMIT * 1e3:.0f} ms, no driver loaded")
    return int(own > LIMIT or low > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
