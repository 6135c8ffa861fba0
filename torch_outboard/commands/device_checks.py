"""What `python -m torch_outboard doctor` does on each device: checks, and measured speeds.

The checks copy both ways, run a kernel and compare data: a driver whose copies do nothing returns
OK for every call, and a program trains on garbage. A compiler may reject every kernel while all
operators run on the host.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from torch_outboard import _C
from torch_outboard.dispatch import fallback, placement

# Sizes of the copies in bytes: one, an odd size above a page, an odd size above a megabyte.
SIZES = (1, 4099, (1 << 20) + 5)
KERNEL = """
__kernel void outboard_check(OB_POINTER(int, x), int factor) {
  OB_BIND(int, x)
  const int i = get_global_id(0);
  x[i] = x[i] * factor + i;
}
"""
ITEMS = 1024


@dataclass(frozen=True)
class Check:
    """The result of one check on one device."""

    device: str
    what: str
    # None if the device does not support the function.
    passed: bool | None
    seconds: float
    problem: str = ""

    @property
    def outcome(self) -> str:
        return {True: "PASS", False: "FAIL", None: "none"}[self.passed]


class _Difference(Exception):
    """The compared data differs."""


def check(device: torch.device) -> Iterator[Check]:
    """Checks a device with an index; failures are results, not exceptions."""
    checks: tuple[tuple[str, Callable[[torch.device], None]], ...] = (
        ("fill memory and copy to the host", _fill_and_read),
        ("copy to the device and back", _copy_both_ways),
        ("copy rows both ways", _copy_rows),
        ("copy within the device", _copy_within),
    )
    for what, function in checks:
        yield _timed(device, what, function)
    what = "build and run a kernel"
    if _C.runs_code(device.index):
        yield _timed(device, what, _run_kernel)
    else:
        yield Check(str(device), what, None, 0.0, "the driver runs no code on this device")


def _timed(device: torch.device, what: str, function: Callable[[torch.device], None]) -> Check:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that the measured time is the driver's
    start = time.perf_counter()
    try:
        # The driver copies and fills, so that the compiler of kernels does not matter.
        with placement.use("host", device):
            function(device)
        problem = ""
    except _Difference as error:
        problem = str(error)
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error).partition(chr(10) + 'Exception raised')[0]}"
    finally:
        seconds = time.perf_counter() - start
        torch.set_num_threads(threads)
    return Check(str(device), what, not problem, seconds, problem)


def _random(size: int) -> torch.Tensor:
    """Random bytes, which stale memory does not contain."""
    return torch.frombuffer(bytearray(os.urandom(size)), dtype=torch.uint8)


def _placed(pinned: bool, x: torch.Tensor, device: torch.device) -> torch.Tensor:
    return x.pin_memory(device.type) if pinned else x


def _compare(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    wrong = int((found != expected).sum())
    if wrong:
        raise _Difference(f"{wrong:,} of {expected.numel():,} bytes are wrong {what}")


def _fill_and_read(device: torch.device) -> None:
    for size in SIZES:
        for value in (0x5A, 0xA5):
            filled = torch.empty(size, dtype=torch.uint8, device=device).fill_(value)
            found = torch.full((size,), 0xFF ^ value, dtype=torch.uint8)
            found.copy_(filled)
            _compare(found, torch.full_like(found, value), "after a fill and a copy to the host")


def _copy_both_ways(device: torch.device) -> None:
    synchronize = torch.get_device_module(device).synchronize
    for size in SIZES:
        for start in (0, 3):  # offset in bytes in the allocation
            for pinned in (False, True):
                data = _random(size)
                sent = _placed(pinned, data, device)
                found = _placed(pinned, data.bitwise_not(), device)
                there = torch.empty(size + start, dtype=torch.uint8, device=device)[start:]
                there.copy_(sent, non_blocking=pinned)
                found.copy_(there, non_blocking=pinned)
                synchronize(device)
                kind = "pinned memory" if pinned else "pageable memory"
                _compare(found, data, f"after copies to the device and back, with {kind}")


def _copy_rows(device: torch.device) -> None:
    # Long enough that the driver copies the rows, not the kit.
    rows, columns, width = 64, 8192, 5001
    for pinned in (False, True):
        data = _random(rows * columns).view(rows, columns)
        sent, found = (_placed(pinned, x, device) for x in (data, data.bitwise_not()))
        expected = found.clone()
        expected[:, :width] = data[:, :width]
        there = torch.empty(rows, columns, dtype=torch.uint8, device=device)
        there[:, 2 : 2 + width].copy_(sent[:, :width], non_blocking=pinned)
        found[:, :width].copy_(there[:, 2 : 2 + width], non_blocking=pinned)
        torch.get_device_module(device).synchronize(device)
        _compare(found, expected, "after copies of rows to the device and back")


def _copy_within(device: torch.device) -> None:
    for size in SIZES:
        data = _random(size)
        source = data.to(device)
        target = (~data).to(device)
        target.copy_(source)
        _compare(target.cpu(), data, "after a copy within the device")


def _run_kernel(device: torch.device) -> None:
    if (failure := _C.compiler_failure(device.index)) is not None:
        raise _Difference(failure)
    x = torch.arange(ITEMS, dtype=torch.int32).to(device)
    local = min(
        64, torch.get_device_module(device).get_device_properties(device).max_work_group_size
    )
    while ITEMS % local:
        local -= 1
    arguments = [("address", x.data_ptr()), ("value", struct.pack("i", 3))]
    _C.launch_kernel(device.index, KERNEL, "outboard_check", "", [ITEMS], [local], arguments)
    expected = torch.arange(ITEMS, dtype=torch.int32) * 4
    wrong = int((x.cpu() != expected).sum())
    if wrong:
        raise _Difference(f"{wrong:,} of {ITEMS:,} numbers that a kernel computed are wrong")


# ---- Speeds: each takes a fraction of a second, so they are rough; benchmarks/ has the exact ones

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
    by_library = "matrix_product" in _C.library_functions()  # with either placement
    product = partial(_product_speed, device)
    if by_library:
        yield "float32 matrix product, the driver's library", _shown(product)
    for where in ("device", "host") if _C.runs_code(device.index) else ("host",):
        kernels = "device kernels" if where == "device" else "CPU kernels"
        with placement.use(where, device), fallback.policy(host="allow", copied="allow"):
            yield f"addition of 16 elements, {kernels}", _shown(partial(_launch_time, device))
            if not by_library:
                yield f"float32 matrix product, {kernels}", _shown(product)


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
    host = _placed(pinned, torch.ones(COPIED, dtype=torch.uint8), device)
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
