"""PyTorch's allocator settings, as the environment gives them."""

from __future__ import annotations

import pytest

from tests.runtime.memory_checks import run_program

PROGRAMS = {
    "max_split_size_mb:32": """
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

# They go first when memory is short.
del small, whole
forget_everything()
unused = [empty(64 * MIB, device), empty(24 * MIB, device)]
kept = unused[1].data_ptr()
unused.clear()
limit_to(130 * MIB)
tensor = empty(90 * MIB, device)
assert kept in [s["address"] for s in segments(device)], "more was given back than needed"
""",
    "roundup_power2_divisions:4": """
tensor = empty(1200 << 10, device)
(block,) = [b for b in blocks_in_use(device).values() if b["address"] == tensor.data_ptr()]
assert block["size"] == 1280 << 10, block
""",
    "garbage_collection_threshold:0.5": """
limit_to(200 * MIB)
oldest, newest = empty(40 * MIB, device), empty(44 * MIB, device)
addresses = oldest.data_ptr(), newest.data_ptr()
del oldest
del newest
tensor = empty(48 * MIB, device)
left = [s["address"] for s in segments(device)]
assert addresses[0] not in left and addresses[1] in left
assert stats(device)["num_alloc_retries"] == 0
""",
}


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("setting", PROGRAMS)
def test_setting(setting: str) -> None:
    run_program(PROGRAMS[setting], PYTORCH_ALLOC_CONF=setting)
