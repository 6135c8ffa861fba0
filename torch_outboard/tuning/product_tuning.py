"""Finds the tiles by which matrix products are fastest on a device.

How many sums a compiler keeps in registers depends on the processor and on the compiler's version,
and one sum too many halves the speed. So tiles are measured, not computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from torch_outboard import _C
from torch_outboard.device import devices
from torch_outboard.dispatch import ways
from torch_outboard.tuning.tuning_journal import Remember, measure_anew

# Rows and vectors of a tile, and tiles of a work item.
Blocks = tuple[int, int, int]
Clock = Callable[[Callable[[], object], Callable[[], None]], float]

TILES = ((4, 1), (8, 1), (4, 2), (5, 2), (6, 2), (8, 2), (4, 3), (12, 2))
PANELS = (1, 4, 8, 16)
# Sums are of these dtypes; half and bfloat16 are summed in float32.
DTYPES = (torch.float32, torch.float64)
# A product is large enough to measure from so many seconds on, and has at most so many rows.
LEAST_SECONDS = 0.004
SIZES = (512, 1024, 2048, 4096)
ROUNDS = 5


@dataclass
class Measured:
    """What was found for one dtype."""

    best: Blocks
    size: int  # of the square matrices
    # 1e9 floating-point operations per second, by blocks.
    rates: dict[Blocks, float] = field(default_factory=dict)


def seconds(run: Callable[[], object], synchronize: Callable[[], None]) -> float:
    """The least time of a call in seconds, after one that compiles: others work here as well."""
    run()
    synchronize()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def steps() -> int:
    """How often `tune` says what it measures, at most."""
    return len(DTYPES) * (len(TILES) + len(PANELS))


def tune(
    device: torch.device,
    say: Callable[[str], None] = lambda _: None,
    clock: Clock = seconds,
    remember: Remember = measure_anew,
) -> dict[str, Measured]:
    """Measures products of square matrices with different tiles; nothing is written or changed.

    Args:
        device: with its index; it has to run code.
        say: is told what is measured next.
        clock: times a call.
        remember: gives what a run before has measured, or measures and keeps it.

    Returns:
        By name of dtype: float32, and float64 where the device computes it.
    """
    found = {}
    for dtype in DTYPES:
        if (
            dtype == torch.float64
            and dtype not in devices.get_device_capability(device).facts["kernel_dtypes"]
        ):
            continue
        before = _C.product_blocks(device.index, dtype)
        try:
            with ways.way("device", device):
                found[str(dtype).removeprefix("torch.")] = _tune(
                    device, dtype, before, say, clock, remember
                )
        finally:
            _C.set_product_blocks(device.index, dtype, *before)
    return found


def _tune(
    device: torch.device,
    dtype: torch.dtype,
    first: Blocks,
    say: Callable[[str], None],
    clock: Clock,
    remember: Remember,
) -> Measured:
    synchronize = torch.get_device_module(device).synchronize
    torch.manual_seed(0)

    def measure(size: int, blocks: Blocks) -> float:
        rows, vectors, panels = blocks
        say(f"products of {size}, {dtype}: {rows} x {vectors} vectors, {panels} tiles")
        _C.set_product_blocks(device.index, dtype, rows, vectors, panels)

        def time_product() -> float:
            left, right = (torch.rand(size, size, dtype=dtype, device=device) for _ in range(2))
            out = torch.empty_like(left)
            return clock(lambda: torch.mm(left, right, out=out), synchronize)

        return float(remember(f"product {dtype} {size} {blocks}", time_product))

    for size in SIZES:
        duration = measure(size, first)
        if duration >= LEAST_SECONDS:
            break
    result = Measured(best=first, size=size)

    def rate_of(duration: float) -> float:
        # To four digits: an emulated processor has some hundredths.
        return float(f"{2 * size**3 / duration / 1e9:.4g}")

    def rate(blocks: Blocks) -> float:
        if blocks not in result.rates:
            result.rates[blocks] = rate_of(measure(size, blocks))
        return result.rates[blocks]

    result.rates[first] = rate_of(duration)
    # Tiles first, then how many a work item takes: they hardly depend on each other.
    rows, vectors, _ = max(((*tile, first[2]) for tile in TILES), key=rate)
    result.best = max([first, *((rows, vectors, panels) for panels in PANELS)], key=rate)
    return result
