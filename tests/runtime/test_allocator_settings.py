"""PyTorch's allocator settings, as the environment gives them."""

from __future__ import annotations

import pytest
import torch

from tests.runtime.memory_checks import PROGRAM
from tests.support import run_python

pytestmark = pytest.mark.by_turns(3)


def test_max_split_size(device: torch.device) -> None:
    run_python(
        PROGRAM
        + """
large = empty(64 * MIB, device)
address = large.data_ptr()
del large
small = empty(4 * MIB, device)
assert not address <= small.data_ptr() < address + 64 * MIB, "an oversize block was split"
whole = empty(60 * MIB, device)
assert whole.data_ptr() == address, "a near fit uses the whole block"
now = stats(device)
assert now["oversize_allocations.current"] == 1, now
assert now["oversize_segments.current"] == 1, now
assert now["max_split_size"] == 32 * MIB, now
check_segments(device)
check_statistics(device)
""",
        PYTORCH_ALLOC_CONF="max_split_size_mb:32",
    )


def test_oversize_blocks_go_first_when_memory_is_short(device: torch.device) -> None:
    run_python(
        PROGRAM
        + """
unused = [empty(64 * MIB, device), empty(24 * MIB, device)]
kept = unused[1].data_ptr()
unused.clear()
total = torch.accelerator.get_memory_info(0)[1]
_C.set_memory_fraction(130 * MIB / total, 0)
tensor = empty(90 * MIB, device)
assert kept in [s["address"] for s in segments(device)], "more was given back than needed"
""",
        PYTORCH_ALLOC_CONF="max_split_size_mb:32",
    )


def test_rounding_to_divisions_of_powers_of_two(device: torch.device) -> None:
    run_python(
        PROGRAM
        + """
tensor = empty(1200 << 10, device)
(block,) = [b for b in blocks_in_use(device).values() if b["address"] == tensor.data_ptr()]
assert block["size"] == 1280 << 10, block
""",
        PYTORCH_ALLOC_CONF="roundup_power2_divisions:4",
    )


def test_garbage_collection_threshold(device: torch.device) -> None:
    run_python(
        PROGRAM
        + """
total = torch.accelerator.get_memory_info(0)[1]
_C.set_memory_fraction(200 * MIB / total, 0)
oldest, newest = empty(40 * MIB, device), empty(44 * MIB, device)
addresses = oldest.data_ptr(), newest.data_ptr()
del oldest
del newest
tensor = empty(48 * MIB, device)
left = [s["address"] for s in segments(device)]
assert addresses[0] not in left and addresses[1] in left
assert stats(device)["num_alloc_retries"] == 0
""",
        PYTORCH_ALLOC_CONF="garbage_collection_threshold:0.5",
    )
