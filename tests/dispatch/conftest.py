"""Fixtures of the tests of kernels and of what runs in their place."""

from collections.abc import Callable, Iterator

import pytest
import torch

from torch_outboard import fallback


@pytest.fixture
def allowed() -> Iterator[None]:
    """Where memory is separate, the operators around those tested would warn."""
    with fallback.policy(copied="allow"):
        yield


def ones(device: torch.device, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*(shape or (3,)), device=device, dtype=dtype)


def constant(value: float) -> Callable[..., torch.Tensor]:
    """A kernel whose result is full of a number."""
    return lambda x, *others, **numbers: torch.full_like(x, value)
