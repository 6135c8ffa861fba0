"""Fixtures of the runtime's tests."""

import gc
from collections.abc import Iterator

import pytest
import torch

from tests.runtime.memory_checks import check_segments, forget_everything, stats
from torch_outboard import _C


@pytest.fixture(scope="module")
def settled_heap() -> Iterator[None]:
    """Collections of garbage look at nothing that was there before: they take no time then."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def memory_given_back(device: torch.device, settled_heap: None) -> Iterator[None]:
    """Fails the test if memory of the device is still in use at its end."""
    torch.empty(1, device=device)
    forget_everything()
    before = stats(device)
    yield
    _C.set_memory_fraction(1.0, device.index)
    forget_everything()
    after = stats(device)
    in_use = before["allocated_bytes.all.current"]
    assert after["allocated_bytes.all.current"] == in_use
    assert after["active_bytes.all.current"] == in_use
    assert after["reserved_bytes.all.current"] <= before["reserved_bytes.all.current"]
    check_segments(device)
