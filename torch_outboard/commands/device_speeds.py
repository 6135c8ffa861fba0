"""Speeds of a device for `python -m torch_outboard doctor`: copies, launches, a matrix product.

Each takes a fraction of a second, so they are rough; benchmarks/ has the exact ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from torch_outboard import _C
from torch_outboard.dispatch import fallback, placement

COPIED = 64 << 20  # bytes
LAUNCHES = 200
# Rows and columns of the matrices: doubled until a product takes long enough, as on an emulator.
SMALLEST, LARGEST = 64, 1024
LONG_ENOUGH = 0.02  # seconds
ROUNDS, MOST_SECONDS = 5, 0.5  # of one measurement


def speeds(device: torch.device) -> Iterator[tuple[str, str]]:
    """What was measured, and the result with its unit; "cannot: ..." where it raises."""
    for memory in ("pageable", "pinned"):
        for towards in ("to the device", "to the host"):
            copy = partial(_copy_speed, device, towards, memory == "pinned")
            yield f"copy {towards}, {memory} memory", _shown(copy)
    for where in ("device", "host") if _C.runs_code(device.index) else ("host",):
        kernels = "device kernels" if where == "device" else "CPU kernels"
        with placement.use(where, device), fallback.policy(host="allow", copied="allow"):
            yield f"addition of 16 elements, {kernels}", _shown(partial(_launch_time, device))
            yield f"float32 matrix product, {kernels}", _shown(partial(_product_speed, device))


def _shown(measure: Callable[[], str]) -> str:
    try:
        return measure()
    except Exception as error:
        return f"cannot: {type(error).__name__}: {str(error).splitlines()[0]}"


def _best(device: torch.device, function: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls, each until the device is idle; one call before."""
    synchronize = torch.get_device_module(device).synchronize
    times: list[float] = []
    while len(times) <= ROUNDS and (len(times) < 2 or sum(times) < MOST_SECONDS):
        synchronize(device)
        begin = time.perf_counter()
        function()
        synchronize(device)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def _copy_speed(device: torch.device, towards: str, pinned: bool) -> str:
    host = torch.ones(COPIED, dtype=torch.uint8)
    if pinned:
        host = host.pin_memory(device.type)
    there = torch.ones(COPIED, dtype=torch.uint8, device=device)
    to, source = (there, host) if towards == "to the device" else (host, there)
    seconds = _best(device, lambda: to.copy_(source, non_blocking=pinned))
    return f"{COPIED / seconds / 1e9:.1f} GB/s"


def _launch_time(device: torch.device) -> str:
    """Per call from Python, of many calls in a row."""
    x = torch.ones(16, device=device)

    def calls() -> None:
        for _ in range(LAUNCHES):
            x.add_(1)

    return f"{_best(device, calls) / LAUNCHES * 1e6:.1f} us"


def _product_speed(device: torch.device) -> str:
    side = SMALLEST
    while True:
        a, b = (torch.randn(side, side).to(device) for _ in range(2))
        seconds = _best(device, partial(torch.mm, a, b))
        if seconds > LONG_ENOUGH or side == LARGEST:
            return f"{2 * side**3 / seconds / 1e9:.3g} GFLOP/s ({side} x {side})"
        side *= 2
