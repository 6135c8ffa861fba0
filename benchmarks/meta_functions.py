"""Time of PyTorch's meta functions in Python, for operators whose definitions state shapes.

    python -m benchmarks.meta_functions

A definition that used them would take this time, and the interpreter lock, at each new shape.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from torch_outboard.columns import print_columns

CALLS = 200
RUNS = 7

aten = torch.ops.aten


def calls() -> dict[str, Callable[[], object]]:
    image = torch.empty(2, 8, 16, 16, device="meta")
    rows = torch.empty(64, 32, device="meta")
    index = torch.empty(5, 7, dtype=torch.int64, device="meta")
    grid = torch.empty(2, 4, 4, 2, device="meta")
    heads = torch.empty(2, 4, 16, 8, device="meta")
    volume = torch.empty(2, 3, 8, 8, 8, device="meta")
    weight = torch.empty(32, device="meta")
    return {
        "embedding": lambda: aten.embedding(rows, index),
        "native_layer_norm": lambda: aten.native_layer_norm(rows, [32], weight, weight, 1e-5),
        "native_group_norm": lambda: aten.native_group_norm(image, None, None, 2, 8, 256, 4, 1e-5),
        "_adaptive_avg_pool2d": lambda: aten._adaptive_avg_pool2d(image, [4, 4]),
        "max_pool3d_with_indices": lambda: aten.max_pool3d_with_indices(volume, [2, 2, 2]),
        "reflection_pad2d": lambda: aten.reflection_pad2d(image, [1, 1, 1, 1]),
        "grid_sampler_2d": lambda: aten.grid_sampler_2d(image, grid, 0, 0, False),
        "index_select": lambda: aten.index_select(rows, 0, index[0]),
        "searchsorted": lambda: aten.searchsorted(rows[0], rows),
        "_scaled_dot_product_flash_attention_for_cpu": lambda: (
            aten._scaled_dot_product_flash_attention_for_cpu(heads, heads, heads)
        ),
    }


def microseconds(call: Callable[[], object]) -> float:
    """The best of several runs, per call."""
    call()
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS)
    return best * 1e6


def main() -> None:
    times = {name: microseconds(call) for name, call in calls().items()}
    print_columns([("operator", "microseconds"), *((n, f"{t:.1f}") for n, t in times.items())])
    print(f"median {statistics.median(times.values()):.1f}")


if __name__ == "__main__":
    main()
