"""Composite operators of PyTorch's that run as a whole on the host."""

import pytest
import torch
from torch.testing import assert_close


@pytest.mark.separate
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_ldexp_by_powers_out_of_range(device: torch.device, dtype: torch.dtype) -> None:
    """PyTorch would multiply by a power of two, which overflows first, on a device of a backend."""
    x = torch.tensor([-2.0, 2.0**-10, 2.0**-10]).to(dtype)
    power = torch.tensor([-25, 20, 130])
    expected = torch.ldexp(x, power)
    assert expected[1] == 2**10
    moved, powers = x.to(device), power.to(device)
    assert_close(torch.ldexp(moved, powers).cpu(), expected, rtol=0, atol=0)
    out = torch.empty(0, dtype=dtype, device=device)
    assert_close(torch.ldexp(moved, powers, out=out).cpu(), expected, rtol=0, atol=0)
    assert_close(moved.ldexp_(powers).cpu(), expected, rtol=0, atol=0)
