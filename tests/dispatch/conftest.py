"""Fixtures of the tests of kernels and of what runs in their place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from torch_outboard import fallback


@pytest.fixture
def allowed() -> Iterator[None]:
    """Where memory is separate, the operators around those tested would warn."""
    with fallback.policy(copied="allow"):
        yield
