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
ROUNDS = 5
LAUNCHES = 200
SIDE = 1024  # rows and columns of the matrices


def speeds(device: torch.device) -> Iterator[tuple[str, str]]:
    """What was measured, and the result with its unit; "cannot: ..." where it raises."""
    for memory in ("pageable", "pinned"):
        for towards in ("to the device", "to the host"):
            copy = partial(_copy_speed, device, towards, memory == "pinned")
            yield f"copy {towards}, {memory} memory", _shown(copy, "{:.1f} GB/s", 1e-9)
    for where in ("device", "host") if _C.runs_code(device.index) else ("host",):
        kernels = "device kernels" if where == "device" else "CPU kernels"
        with placement.use(where, device), fallback.policy(host="allow", copied="allow"):
            launch, product = partial(_launch_time, device), partial(_product_speed, device)
            yield f"addition of 16 elements, {kernels}", _shown(launch, "{:.1f} us", 1e6)
            name = f"float32 product of {SIDE} x {SIDE}, {kernels}"
            yield name, _shown(product, "{:.0f} GFLOP/s", 1e-9)


def _shown(measure: Callable[[], float], form: str, scale: float) -> str:
    try:
        return form.format(measure() * scale)
    except Exception as error:
        return f"cannot: {type(error).__name__}: {str(error).splitlines()[0]}"


def _best(device: torch.device, function: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls, each until the device is idle; one call before."""
    synchronize = torch.get_device_module(device).synchronize
    times = []
    for _ in range(ROUNDS + 1):
        synchronize(device)
        begin = time.perf_counter()
        function()
        synchronize(device)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def _copy_speed(device: torch.device, towards: str, pinned: bool) -> float:
    """Bytes per second."""
    host = torch.ones(COPIED, dtype=torch.uint8)
    if pinned:
        host = host.pin_memory(device.type)
    there = torch.ones(COPIED, dtype=torch.uint8, device=device)
    to, source = (there, host) if towards == "to the device" else (host, there)
    return COPIED / _best(device, lambda: to.copy_(source, non_blocking=pinned))


def _launch_time(device: torch.device) -> float:
    """Seconds per call from Python, many calls in a row."""
    x = torch.ones(16, device=device)

    def calls() -> None:
        for _ in range(LAUNCHES):
            x.add_(1)

    return _best(device, calls) / LAUNCHES


def _product_speed(device: torch.device) -> float:
    """Floating-point operations per second."""
    a, b = (torch.randn(SIDE, SIDE).to(device) for _ in range(2))
    return 2 * SIDE**3 / _best(device, lambda: a @ b)
