"""Invariants of the caching allocator that are visible from outside."""

import gc
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from tests.support import run_python
from torch_outboard import _C

GRANULARITY = 512
SMALL_LIMIT = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20

Block = dict[str, Any]

# The beginning of programs of tests in separate processes. `busy` gives a stream a copy that
# starts half a second late, under fault injection.
_IMPORTS = f"""
import gc, itertools, os, random, sys, threading, time
sys.path.append({str(Path(__file__).parents[2])!r})
import torch
from torch_outboard import _C
from torch_outboard.drivers import faults
from tests.runtime.memory_checks import *

MIB = 1 << 20
"""
_PROGRAM = """
device = torch.device(torch._C._get_privateuse1_backend_name(), 0)
torch.empty(1, device=device)
sources = []

def busy(stream):
    if not sources:
        sources.append(torch.full((4 * MIB,), 3, dtype=torch.uint8).pin_memory())
    faults.configure(delay_us=500_000)
    with stream:
        work = sources[0].to(device, non_blocking=True)
    faults.configure(delay_us=0)
    return work

def limit_to(size):
    _C.set_memory_fraction(size / torch.accelerator.get_memory_info(0)[1], 0)
"""


def run_program(code: str, before: str = "", **settings: str | None) -> str:
    """The output of a program that knows the names of this module, and those above.

    Args:
        code: the program.
        before: what it does before the device is used.
        settings: environment variables.
    """
    return run_python(_IMPORTS + before + _PROGRAM + code, **settings)


def fails(call: Callable[[], object], *words: str, kind: type[Exception] = RuntimeError) -> None:
    """It raises such an error, with these words."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error  # noqa: PT017
    else:
        raise AssertionError(f"nothing was raised, and {words} should be")


def rounded(size: int) -> int:
    """The least memory of a tensor of `size` bytes."""
    return max(GRANULARITY, -(-size // GRANULARITY) * GRANULARITY)


def stats(device: torch.device) -> dict[str, int]:
    return dict(torch.accelerator.memory_stats(device.index))


def empty(size: int, device: torch.device) -> torch.Tensor:
    """A tensor of `size` bytes with memory of its own."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def forget_everything() -> None:
    """Gives unused memory back to the driver."""
    gc.collect()
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()


def segments(device: torch.device) -> list[dict[str, Any]]:
    return [s for s in _C.memory_snapshot() if s["device"] == device.index]


def blocks_in_use(device: torch.device) -> dict[int, Block]:
    """Allocated blocks by address."""
    return {
        block["address"]: block
        for segment in segments(device)
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }


def check_segments(device: torch.device) -> None:
    """Blocks fill their segment, free neighbours are merged, and the sums are right."""
    for segment in segments(device):
        blocks = segment["blocks"]
        assert sum(b["size"] for b in blocks) == segment["total_size"]
        states = [b["state"] for b in blocks]
        for left, right in itertools.pairwise(states):
            assert (left, right) != ("inactive", "inactive"), "free neighbours were not merged"
        for block in blocks:
            assert block["size"] > 0
            assert block["size"] % GRANULARITY == 0
            assert block["requested_size"] <= block["size"]
        in_use = [b for b in blocks if b["state"] == "active_allocated"]
        assert segment["allocated_size"] == sum(b["size"] for b in in_use)


def check_statistics(device: torch.device) -> None:
    """The statistics say what the snapshot says."""
    expected: Counter[str] = Counter()

    def count(name: str, pool: str, amount: int) -> None:
        for which in ("all", f"{pool}_pool"):
            expected[f"{name}.{which}.current"] += amount

    for segment in segments(device):
        pool = segment["segment_type"]
        count("segment", pool, 1)
        count("reserved_bytes", pool, segment["total_size"])
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                count("allocation", pool, 1)
                count("allocated_bytes", pool, block["size"])
            if block["state"] != "inactive":
                count("active", pool, 1)
                count("active_bytes", pool, block["size"])
                count("requested_bytes", pool, block["requested_size"])
            elif block["size"] != segment["total_size"]:
                count("inactive_split", pool, 1)
                count("inactive_split_bytes", pool, block["size"])
    ends = (".all.current", "_pool.current")
    actual = {key: value for key, value in stats(device).items() if key.endswith(ends)}
    assert actual == {key: expected[key] for key in actual}
    assert actual.keys() >= expected.keys()


def check_tensors(tensors: Iterable[torch.Tensor], device: torch.device) -> None:
    """Each tensor has exactly one block of its own, large enough, and no two blocks overlap."""
    blocks = blocks_in_use(device)
    end = 0
    for address in sorted(blocks):
        assert address >= end, "two blocks overlap"
        end = address + blocks[address]["size"]
    seen = set()
    for tensor in tensors:
        address, size = tensor.data_ptr(), tensor.numel()
        assert address not in seen, "two tensors share a block"
        seen.add(address)
        block = blocks[address]
        assert block["requested_size"] == size
        if size <= SMALL_LIMIT:
            assert block["size"] == rounded(size)
        else:
            assert rounded(size) <= block["size"] <= rounded(size) + SMALL_LIMIT
