"""dtypes in definitions and as types of kernels' arguments."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu
from torch_outboard.ops.definition import EVERY, dtype_number


def test_numbers_are_those_of_pytorch() -> None:
    """Its language for scripts shows them."""
    for dtype in EVERY:
        unit = torch.jit.CompilationUnit(f"def number() -> int:\n    return {dtype}\n")
        assert dtype_number(dtype) == unit.number()


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_numbers_of_every_dtype_reach_kernels(device: torch.device, dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    assert_as_on_cpu(device, lambda x: x * torch.ones((), dtype=x.dtype), x)
    assert_as_on_cpu(device, lambda x: torch.where(x != 0, x, 1), x)
