"""Cost of allocating and freeing cached memory, measured in C++.

    python -m benchmarks.allocator [--json]

Prints nanoseconds for one allocation and one release together: the median of several runs for each
size. Fails if the driver was called, or if a median is above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys

SIZES = (512, 4096, 65_536, 1 << 20, 3 << 20, 64 << 20)  # bytes
LIMIT = 300.0  # nanoseconds
RUNS = 301
ITERATIONS = 1_000


def measure() -> dict[int, float]:
    """Median nanoseconds by size.

    Raises:
        AssertionError: if the driver was called for memory that was cached.
    """
    import torch

    import torch_outboard
    from torch_outboard import _C
    from torch_outboard.drivers import faults

    device = torch.device(torch_outboard.device_name(), 0)
    # Neighbouring blocks are in use: blocks are split and merged each time.
    held = [torch.empty(size, dtype=torch.uint8, device=device) for size in SIZES for _ in range(4)]
    medians = {}
    for size in SIZES:
        _C.testing.benchmark_allocator(size, 1)
        before = faults.calls()
        runs = [_C.testing.benchmark_allocator(size, ITERATIONS) for _ in range(RUNS)]
        assert faults.calls() == before, f"the driver was called for {size} bytes"
        medians[size] = statistics.median(runs)
    del held
    return medians


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    arguments = parser.parse_args()
    os.environ.setdefault("OUTBOARD_DRIVER", "host")
    os.environ.setdefault("OUTBOARD_FAULTS", "count")
    medians = measure()
    if arguments.json:
        print(json.dumps({"allocate_and_free_ns": medians, "limit_ns": LIMIT, "driver_calls": 0}))
    else:
        from torch_outboard.columns import print_columns

        rows = [(f"{size:,}", f"{nanoseconds:.0f}") for size, nanoseconds in medians.items()]
        print_columns([("bytes", "ns"), *rows], right=(0, 1))
        print(f"limit {LIMIT:.0f} ns, no driver call")
    return 0 if max(medians.values()) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
