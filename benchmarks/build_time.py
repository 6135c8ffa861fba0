"""Time to build the native parts from a clean clone, without a compiler cache.

python -m benchmarks.build_time [--jobs 2]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 360.0  # seconds


def measure(jobs: int) -> float:
    """Seconds for library, binding and drivers, with this Python and its PyTorch.

    Raises:
        subprocess.CalledProcessError: if the clone does not build.
    """
    environment = {**os.environ, "CCACHE_DISABLE": "1", "MAX_JOBS": str(jobs)}
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        start = time.monotonic()
        subprocess.run(
            [sys.executable, "setup.py", "-q", "build", "--build-lib", f"{folder}/built"],
            cwd=clone,
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    seconds = measure(parser.parse_args().jobs)
    print(f"built in {seconds:.0f} s, limit {LIMIT:.0f} s")
    return int(seconds > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
